// Operands for a foreign GEMM (engine/cuda/prefill_matmuls.h), which wants row-major FP16: weights
// out of fragment order, rows of activations of which FP16 keeps 11 bits, and what is left to do
// with the products.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

// to (n_out, ld) = W; columns from n_in on, up to whole blocks of 32, become zero.
struct ExpandI8 {
  TilesI8 w;     // of any form, each weight by dequantize(), then to nearest even
  uint16_t* to;  // 16-byte aligned
  int ld;        // a multiple of 8, at least n_in
};
void expand_i8(const ExpandI8& p, Stream stream);

struct ExpandF16 {
  TilesF16 w;
  uint16_t* to;  // 16-byte aligned
  int ld;        // a multiple of 8, at least n_in rounded up to 32
};
void expand_f16(const ExpandF16& p, Stream stream);

// Row r of `out` = x / scale[r] to nearest even, with the scale of RowsF16; zeros from n to ld_out.
struct HalveScaledRows {
  const float* x;       // (n_rows, ld), 16-byte aligned
  int n_rows, ld, n;    // of a row, at most ld
  const float* weight;  // (n), the rows are rmsnorm(x) * weight, n and ld multiples of 4; null: x
  float eps;
  uint16_t* out;  // (n_rows, ld_out)
  int ld_out;
  float* scale;  // (n_rows)
};
void halve_scaled_rows(const HalveScaledRows& p, Stream stream);

// What becomes of products c of rows that were divided by scale, c being c scale:
enum class Finish {
  kScale,  // y = c, where y and c may be one
  kAdd,    // y += c, then y += bias
  kGate,   // y = activation(c) (y scale)
};
struct FinishRows {
  Finish finish;
  const float* c;  // (n_rows, ldc)
  int n_rows, n, ldc;
  const float* scale;  // (n_rows)
  const float* bias;   // (n) or null
  float* y;            // (n_rows, ldy)
  int ldy;
  Activation activation = Activation::kSilu;
};
void finish_rows(const FinishRows& p, Stream stream);

}  // namespace specbound::kernels
