// FP16 weights in a decode pass of 1..16 rows, and the rows on their way into them, in prefill too.
//
// Activations are FP32 numbers cut in two FP16 parts (RowsF16), so that the error against exact
// sums is that of the CPU backend, which multiplies FP16 weights by FP32 activations: with one part
// it would be thousands of times larger. The weights are read once; the second product costs only
// tensor-core time. A row's bits do not depend on the other rows.
//
// Common to all matmuls: pass->n_rows is 1..16; x holds panels_of(n_rows) panels; weights are
// TilesF16 with any n_out >= 1 and n_in that rounds up to x.n_in; w and x.x are 16-byte aligned.
// Rows of an output from n_rows on are not touched.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

// out = rmsnorm(h) * weight in the CPU's bits, scaled and cut in two.
struct NormF16 {
  const Pass* pass;     // 1 <= n_rows <= max_rows
  const float* h;       // H (slots, dim), 16-byte aligned: rows pass->slot..
  const float* weight;  // (dim)
  int dim;              // a multiple of 4
  float eps;
  RowsF16 out;   // panels_of(n_rows) panels; out.n_in: dim rounded up to 32; rows from n_rows to
                 // the end of the last panel become zero
  int max_rows;  // 1..512
  bool last_row = false;  // only that of the pass, as row 0; max_rows is 1
  bool overlaps = false;  // with the kernel before it, which is one of the same pass (launch.cuh)
};
void norm_f16(const NormF16& p, Stream stream);

// out = x, scaled and cut in two.
struct ScaleRowsF16 {
  const Pass* pass;  // 1 <= n_rows <= max_rows
  const float* x;    // (n_rows, ld)
  int ld;            // at least n
  int n;             // of a row, any
  RowsF16 out;       // as above, out.n_in: n rounded up to 32
  int max_rows;      // 1..512
};
void scale_rows_f16(const ScaleRowsF16& p, Stream stream);

// y[row] = (parts[0] x, parts[1] x, ...), side by side: q, k and v; or the logits.
struct ProjectF16 {
  static constexpr int kMaxParts = 3;
  const Pass* pass;
  RowsF16 x;
  TilesF16 parts[kMaxParts];
  int n_parts;  // 1..3
  float* y;     // (n_rows, ld)
  int ld;       // at least the sum of n_out
};
void project_f16(const ProjectF16& p, Stream stream);

// h += W x, then h += bias.
struct ProjectResidualF16 {
  const Pass* pass;
  RowsF16 x;
  TilesF16 w;         // (dim, n_in)
  const float* bias;  // (dim) or null
  float* h;           // H (slots, dim): rows pass->slot..
};
void project_residual_f16(const ProjectResidualF16& p, Stream stream);

// act = activation(gate x) * (up x), in FP32: a row's scale needs the whole of it (scale_rows_f16).
struct GateUpF16 {
  const Pass* pass;
  RowsF16 x;
  TilesF16 gate, up;  // (ffn_dim, n_in) both
  float* act;         // (n_rows, ld)
  int ld;             // at least ffn_dim
  Activation activation = Activation::kSilu;
};
void gate_up_f16(const GateUpF16& p, Stream stream);

}  // namespace specbound::kernels
