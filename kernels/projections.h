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

// In place of RowsI8 the row of a pass of one, which every block norms and quantizes for itself
// while its first weights are on their way: norm_quantize()'s bits (rows.h) with one launch fewer.
struct NormedRow {
  int32_t n_in;         // a multiple of 32 up to kWidestNormed
  const float* h;       // H (slots, n_in), 16-byte aligned: row pass->slot
  const float* weight;  // (n_in), 16-byte aligned
  float eps;
};
// Of what a block of sm_75 has, gate's and up's sums leave room for so many.
inline constexpr int kWidestNormed = 24576;
// Whether a matmul of n_out outputs may take such a row, and better does: it has few blocks.
bool better_normed(int n_out, int n_in);

// y[row] = (parts[0] x, parts[1] x, ...), side by side: q, k and v; or the logits.
template <class Rows>
struct ProjectOf {
  static constexpr int kMaxParts = 3;
  const Pass* pass;
  Rows x;
  TilesI8 parts[kMaxParts];
  int n_parts;  // 1..3
  float* y;     // (n_rows, ld)
  int ld;       // at least the sum of n_out
  int max_rows = kMaxDecodeRows;
  // With the kernel before it (launch.cuh): not where that one stores what the pass is about.
  bool overlaps = true;
};
using Project = ProjectOf<RowsI8>;
void project(const Project& p, Stream stream);
using ProjectNormed = ProjectOf<NormedRow>;
void project_normed(const ProjectNormed& p, Stream stream);

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
template <class Rows>
struct GateUpOf {
  const Pass* pass;
  Rows x;
  TilesI8 gate, up;  // (ffn_dim, n_in), ffn_dim a multiple of 32
  RowsI8 out;        // n_in = ffn_dim; rows from n_rows to the end of the last panel become zero
  Activation activation = Activation::kSilu;
  int max_rows = kMaxDecodeRows;
};
using GateUp = GateUpOf<RowsI8>;
void gate_up(const GateUp& p, Stream stream);
using GateUpNormed = GateUpOf<NormedRow>;
void gate_up_normed(const GateUpNormed& p, Stream stream);

}  // namespace specbound::kernels
