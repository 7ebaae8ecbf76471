// Embedding, norm and quantization of rows; a block computes a row.
#include "rows.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "quantize.cuh"
#include "row_norm.cuh"
#include "weight_forms.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = kRowThreads;
constexpr int kWarps = kThreads / kWarp;

struct Four {
  float x[4];
};

SPECBOUND_DEVICE Four load_four(const float* p) {
  const Word4 v = *reinterpret_cast<const Word4*>(p);
  return {{float_of(v.x), float_of(v.y), float_of(v.z), float_of(v.w)}};
}

SPECBOUND_DEVICE Four load_four_if(bool condition, const float* p) {
  return condition ? load_four(p) : Four{};
}

// A warp quantizes 128 values: eight lanes that lie together hold a block, four of it each, from
// element k of the row on. Lanes past the row's end only take part in the shuffles.
SPECBOUND_DEVICE void quantize_fours(const Four& four, int row, int k, const RowsI8& out) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t magnitude = magnitude_bits(four.x[i]);
    largest = largest > magnitude ? largest : magnitude;
  }
#pragma unroll
  for (int step = 4; step >= 1; step /= 2) {
    const uint32_t other = shuffle_xor(largest, step);
    largest = largest > other ? largest : other;
  }
  if (k >= out.n_in) return;
  const QuantScale scale = quant_scale(largest);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word |= (static_cast<uint32_t>(quantized(four.x[i], scale)) & 0xffu) << (8 * i);
  }
  const int block = k / kQuantBlock, at = k % kQuantBlock;
  const size_t place = row_block(out.n_in / kQuantBlock, row, block);
  *reinterpret_cast<uint32_t*>(out.q + place * kQuantBlock + at) = word;
  if (at == 0) out.d[place] = scale.dx;
}

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

// Of the weights of a norm, so many fours of a thread are there before its row is: as many as its
// registers hold where kernels overlap, so that there is time to bring them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr int kFoursAhead = 2;
#else
inline constexpr int kFoursAhead = 4;
#endif

__global__ void __launch_bounds__(kThreads) norm_quantize_kernel(NormQuantize p) {
  let_next_start();
  const int row = static_cast<int>(blockIdx.x), dim = p.out.n_in;
  const int thread = static_cast<int>(threadIdx.x);
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, p.last_row);
  Four ahead[kFoursAhead];
#pragma unroll
  for (int i = 0; i < kFoursAhead; ++i) {
    const int k = 4 * (i * kThreads + thread);
    ahead[i] = load_four_if(k < dim, p.weight + k);
  }
  const int rest = dim - 4 * kFoursAhead * kThreads;
  if (thread == 0 && rest > 0) prefetch(p.weight + (dim - rest), 4 * rest);
  wait_for_previous();
  if (!row_lives(row, rows.n, p.out)) return;
  const float* x = p.h + static_cast<size_t>(rows.first + row) * dim;
  const float scale = inverse_rms(x, dim, p.eps);
  if (dim <= kStagedFloats) x = block_shared<float>();  // where inverse_rms() has left it
  // The warp's 128 values of which this thread's begin at k.
  const auto finish = [&](int k, const Four& weight) {
    Four y = load_four_if(k < dim, x + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) y.x[i] = (y.x[i] * scale) * weight.x[i];
    quantize_fours(y, row, k, p.out);
  };
#pragma unroll
  for (int i = 0; i < kFoursAhead; ++i) {
    const int k = 4 * (i * kThreads + thread);
    if (k - 4 * lane_index() < dim) finish(k, ahead[i]);
  }
  for (int k = 4 * (kFoursAhead * kThreads + thread); k - 4 * lane_index() < dim;
       k += 4 * kThreads) {
    finish(k, load_four_if(k < dim, p.weight + k));
  }
}

__global__ void __launch_bounds__(kThreads) norm_floats_kernel(NormFloats p) {
  const int row = static_cast<int>(blockIdx.x);
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, p.last_row);
  if (row >= rows.n) return;
  const float* x = p.h + static_cast<size_t>(rows.first + row) * p.dim;
  float* out = p.out + static_cast<size_t>(row) * p.dim;
  const float scale = inverse_rms(x, p.dim, p.eps);
  for (int k = static_cast<int>(threadIdx.x); k < p.dim; k += kThreads) {
    out[k] = (x[k] * scale) * p.weight[k];
  }
}

__global__ void __launch_bounds__(kThreads) quantize_rows_kernel(QuantizeRows p) {
  const int row = static_cast<int>(blockIdx.x), n_in = p.out.n_in;
  if (!row_lives(row, hidden_rows(p.pass, p.max_rows, false).n, p.out)) return;
  const float* x = p.x + static_cast<size_t>(row) * p.ld;
  for (int first = 128 * warp_index(); first < n_in; first += 128 * kWarps) {
    const int k = first + 4 * lane_index();
    quantize_fours(load_four_if(k < n_in, x + k), row, k, p.out);
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
  SB_CHECK(aligned(p.weight, 4) && aligned(p.out, 4));
  launch(norm_floats_kernel, "norm_floats",
         {{static_cast<unsigned>(p.max_rows)}, kThreads, kNormBytes}, stream, p);
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
