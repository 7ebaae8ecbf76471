// y = W x for the 1..16 rows of a decode pass, INT8 weights, with what follows at once. The bits
// are those of the CPU backend and do not depend on the other rows (numerics/int8_formula.h).
//
// Common to all: pass->n_rows is 1..16; x holds panels_of(n_rows) panels; weights are TilesI8 with
// n_in = x.n_in, any n_out >= 1; q and d of weights and rows are aligned as layouts.h says, d of
// rows to 8 bytes. Rows of an output from n_rows on are not touched. `max_rows`: what n_rows will
// not exceed; up to 8 have kernels that keep more weights on their way.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

// y[row] = (parts[0] x, parts[1] x, ...), side by side: q, k and v; or the logits.
struct Project {
  static constexpr int kMaxParts = 3;
  const Pass* pass;
  RowsI8 x;
  TilesI8 parts[kMaxParts];
  int n_parts;  // 1..3
  float* y;     // (n_rows, ld)
  int ld;       // at least the sum of n_out
  int max_rows = kMaxDecodeRows;
};
void project(const Project& p, Stream stream);

// h += W x, then h += bias.
struct ProjectResidual {
  const Pass* pass;
  RowsI8 x;
  TilesI8 w;          // (dim, n_in)
  const float* bias;  // (dim) or null
  float* h;           // H (slots, dim): rows pass->slot..
  int max_rows = kMaxDecodeRows;
};
void project_residual(const ProjectResidual& p, Stream stream);

// out = quantize(activation(gate x) * (up x)).
struct GateUp {
  const Pass* pass;
  RowsI8 x;
  TilesI8 gate, up;  // (ffn_dim, n_in), ffn_dim a multiple of 32
  RowsI8 out;        // n_in = ffn_dim; rows from n_rows to the end of the last panel become zero
  Activation activation = Activation::kSilu;
  int max_rows = kMaxDecodeRows;
};
void gate_up(const GateUp& p, Stream stream);

}  // namespace specbound::kernels
