// Embedding, norm and quantization of rows; a block computes a row.
#include "rows.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "norm_quantize.cuh"
#include "quantize.cuh"
#include "row_norm.cuh"
#include "weight_forms.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = kRowThreads;
constexpr int kWarps = kThreads / kWarp;

// Of a row of RowsI8.
struct StoreRow {
  const RowsI8& out;
  int row;

  SPECBOUND_DEVICE void operator()(int block, int at, uint32_t word, float dx) const {
    const size_t place = row_block(out.n_in / kQuantBlock, row, block);
    *reinterpret_cast<uint32_t*>(out.q + place * kQuantBlock + at) = word;
    if (at == 0) out.d[place] = dx;
  }
};

// Is the block's row one of n_rows? If not, but of their last panel, it is made zero.
SPECBOUND_DEVICE bool row_lives(int row, int n_rows, const RowsI8& out) {
  if (row < n_rows) return true;
  if (row / kPanelRows > (n_rows - 1) / kPanelRows) return false;
  const int n_blocks = out.n_in / kQuantBlock;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * n_blocks; i += kThreads) {
    const size_t place = row_block(n_blocks, row, i / 2);
    reinterpret_cast<Word4*>(out.q + place * kQuantBlock)[i % 2] = Word4{0, 0, 0, 0};
    if (i % 2 == 0) out.d[place] = 0.0f;
  }
  return false;
}

__global__ void __launch_bounds__(kThreads) norm_quantize_kernel(NormQuantize p) {
  let_next_start();
  const int row = static_cast<int>(blockIdx.x), dim = p.out.n_in;
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, p.last_row);
  const NormWeights<kThreads> weights(p.weight, dim);
  wait_for_previous();
  if (!row_lives(row, rows.n, p.out)) return;
  const float* x = p.h + static_cast<size_t>(rows.first + row) * dim;
  norm_and_quantize<kThreads, kStagedFloats>(x, weights, dim, p.eps, StoreRow{p.out, row});
}

__global__ void __launch_bounds__(kThreads) norm_floats_kernel(NormFloats p) {
  const int row = static_cast<int>(blockIdx.x);
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, p.last_row);
  if (row >= rows.n) return;
  const float* x = p.h + static_cast<size_t>(rows.first + row) * p.dim;
  float* out = p.out + static_cast<size_t>(row) * p.ld;
  const float scale = p.weight ? inverse_rms(x, p.dim, p.eps) : 1.0f;
  for (int k = static_cast<int>(threadIdx.x); k < p.dim; k += kThreads) {
    out[k] = p.weight ? (x[k] * scale) * p.weight[k] : x[k];
  }
}

__global__ void __launch_bounds__(kThreads) quantize_rows_kernel(QuantizeRows p) {
  const int row = static_cast<int>(blockIdx.x), n_in = p.out.n_in;
  if (!row_lives(row, hidden_rows(p.pass, p.max_rows, false).n, p.out)) return;
  const float* x = p.x + static_cast<size_t>(row) * p.ld;
  for (int first = 128 * warp_index(); first < n_in; first += 128 * kWarps) {
    const int k = first + 4 * lane_index();
    quantize_fours(load_four_if(k < n_in, x + k), k, n_in, StoreRow{p.out, row});
  }
}

__global__ void __launch_bounds__(kThreads) embed_rows_kernel(EmbedRows p) {
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, false);
  if (row >= rows.n) return;
  const size_t first = static_cast<size_t>(p.tokens[row]) * p.dim;
  float* h = p.h + static_cast<size_t>(rows.first + row) * p.dim;
  for (int k = thread; k < p.dim; k += kThreads) {
    h[k] = stored_value(p.type, p.table, first + k) * p.scale;
  }
}

void check_rows(const Pass* pass, int max_rows, const RowsI8& out) {
  SB_CHECK(pass != nullptr && max_rows >= 1 && max_rows <= kMaxPrefillRows);
  SB_CHECK(out.n_in >= kQuantBlock && out.n_in % kQuantBlock == 0);
  SB_CHECK(aligned(out.q, 16) && aligned(out.d, 16));
}

Grid whole_panels(int max_rows) {
  return {static_cast<unsigned>(panels_of(max_rows) * kPanelRows)};
}

}  // namespace

void norm_quantize(const NormQuantize& p, Stream stream) {
  check_rows(p.pass, p.max_rows, p.out);
  SB_CHECK(aligned(p.h, 16) && aligned(p.weight, 16) && (!p.last_row || p.max_rows == 1));
  launch(norm_quantize_kernel, "norm_quantize",
         {whole_panels(p.max_rows), kThreads, kNormBytes, p.overlaps}, stream, p);
}

void norm_floats(const NormFloats& p, Stream stream) {
  SB_CHECK(p.pass != nullptr && p.max_rows >= 1 && p.max_rows <= kMaxPrefillRows);
  SB_CHECK(p.dim >= 4 && p.dim % 4 == 0 && aligned(p.h, 16) && (!p.last_row || p.max_rows == 1));
  SB_CHECK((!p.weight || aligned(p.weight, 4)) && aligned(p.out, 4));
  SB_CHECK(p.ld == 0 || p.ld >= p.dim);
  NormFloats rows = p;
  if (rows.ld == 0) rows.ld = rows.dim;
  launch(norm_floats_kernel, "norm_floats",
         {{static_cast<unsigned>(p.max_rows)}, kThreads, kNormBytes}, stream, rows);
}

void quantize_rows(const QuantizeRows& p, Stream stream) {
  check_rows(p.pass, p.max_rows, p.out);
  SB_CHECK(aligned(p.x, 16) && p.ld % 4 == 0 && p.ld >= p.out.n_in);
  launch(quantize_rows_kernel, "quantize_rows", {whole_panels(p.max_rows), kThreads, 0}, stream, p);
}

void embed_rows(const EmbedRows& p, Stream stream) {
  SB_CHECK(p.pass != nullptr && p.max_rows >= 1 && p.max_rows <= kMaxPrefillRows);
  SB_CHECK(p.tokens != nullptr && p.h != nullptr && aligned(p.table, 4) && p.dim >= 1);
  SB_CHECK(runs_as(p.type) && p.dim % static_cast<int>(dtype_info(p.type)->block) == 0);
  launch(embed_rows_kernel, "embed_rows", {{static_cast<unsigned>(p.max_rows)}, kThreads, 0},
         stream, p);
}

}  // namespace specbound::kernels
