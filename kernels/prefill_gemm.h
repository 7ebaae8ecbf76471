// Matmuls of prefill, up to 512 rows: INT8 with the CPU's bits, FP16 with those of decode.
//
// y = W x by the written formula (numerics/int8_formula.h; FP16: matmul_f16.cuh), so a row's bits
// are the same whatever n_rows is and wherever it lies. Rows are counted by pass->n_rows,
// 1..max_rows. All pointers are device memory; what is written may not overlap what is read, `y`
// aside.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

// y (n_rows, ldy), outputs [0, n_out), any n_out: W x, or y + W x with `add`; then bias is added.
struct PrefillMatmulI8 {
  const Pass* pass;
  int32_t max_rows;   // 1..512: what the grid is made for
  TilesI8 w;          // n_in a multiple of 32
  RowsI8 x;           // (n_rows, w.n_in), panels_of(n_rows) panels
  const float* bias;  // (n_out) or null
  bool add;
  float* y;  // (n_rows, ldy)
  int32_t ldy;
};
void prefill_matmul_i8(const PrefillMatmulI8& p, Stream stream);

struct PrefillMatmulF16 {
  const Pass* pass;
  int32_t max_rows;
  TilesF16 w;
  RowsF16 x;          // x.n_in: w.n_in rounded up to 32
  const float* bias;  // (n_out) or null
  bool add;
  float* y;  // (n_rows, ldy)
  int32_t ldy;
};
void prefill_matmul_f16(const PrefillMatmulF16& p, Stream stream);

// act (n_rows, n_out) = activation(Wg x) * (Wu x), quantized; panels_of(n_rows) panels are written,
// rows past the last as zeros. n_out is a multiple of 32.
struct PrefillGateUpI8 {
  const Pass* pass;
  int32_t max_rows;
  TilesI8 gate, up;  // (n_out, n_in) both
  RowsI8 x;
  RowsI8 act;  // act.n_in: n_out
  Activation activation = Activation::kSilu;
};
void prefill_gate_up_i8(const PrefillGateUpI8& p, Stream stream);

// The same in FP32, any n_out: a row's scale needs the whole of it (scale_rows_f16).
struct PrefillGateUpF16 {
  const Pass* pass;
  int32_t max_rows;
  TilesF16 gate, up;  // (n_out, n_in) both
  RowsF16 x;
  float* act;  // (n_rows, ld)
  int32_t ld;
  Activation activation = Activation::kSilu;
};
void prefill_gate_up_f16(const PrefillGateUpF16& p, Stream stream);

}  // namespace specbound::kernels
