// A block of 8 warps makes 128 outputs of 64 rows, each warp one tile of 16 outputs: weights go
// from memory straight into registers, each once a block, activations through shared memory, in
// stages of 1 KB of weights a tile. The next stage is under way while one is computed.
#include "prefill_gemm.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "matmul_f16.cuh"

#include "quantize.cuh"

namespace specbound::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kPanels = 8;                        // of a block
constexpr int kBlockRows = kPanels * kPanelRows;  // 64
constexpr int kStageWords = 2;                    // of weights, a lane
constexpr int kActTiles = kWarps / 2;             // of gate, and of up
constexpr int kActOutputs = kActTiles * kTileOutputs;
static_assert(kWarps == kPanels);  // warp i stages panel i

template <bool kInt8>
struct Stage {
  static constexpr int kBlocks = kInt8 ? kStageWords : kStageWords / 2;    // of 32 k
  static constexpr int kRowWords = kInt8 ? kStageWords / 2 : kStageWords;  // of a panel, a lane
  static constexpr int kPanelWords = kRowWords * kWarp;
  static constexpr size_t kRowBytes = kPanels * kPanelWords * sizeof(Word4);
  static constexpr int kScales = kBlocks * kPanelRows;  // INT8: of a panel
  static constexpr size_t kScaleBytes = kInt8 ? kPanels * kScales * sizeof(float) : 0;
  static constexpr size_t kBytes = 2 * (kRowBytes + kScaleBytes);
};

struct Operands {
  const Word4* w;             // (n_tiles, words of a tile, 32 lanes)
  const uint32_t* w_scales;   // INT8: (n_tiles, n_in/32, 8)
  const Word4* x;             // (n_panels, words of a panel)
  const float* x_scales;      // INT8: (n_panels, n_in/32, 8); FP16: (n_panels, 8)
  int n_tiles, n_in, n_rows;  // n_in padded to 32
};

SPECBOUND_DEVICE Operands operands(const TilesI8& w, const RowsI8& x, int n_rows) {
  return {reinterpret_cast<const Word4*>(w.q),
          reinterpret_cast<const uint32_t*>(w.d),
          reinterpret_cast<const Word4*>(x.q),
          x.d,
          tiles_of(w.n_out),
          x.n_in,
          n_rows};
}

SPECBOUND_DEVICE Operands operands(const TilesF16& w, const RowsF16& x, int n_rows) {
  return {reinterpret_cast<const Word4*>(w.w),
          nullptr,
          reinterpret_cast<const Word4*>(x.x),
          x.scale,
          tiles_of(w.n_out),
          x.n_in,
          n_rows};
}

// Sums of a tile for all panels of the block, in the mma's places: total[p][i] is of output
// g + 8 (i / 2) and row 2 t + i % 2 of panel p.
using Sums = float[kPanels][4];

// total += the sums of a chunk, which become zero; FP16: times the rows' scales, as decode has it.
template <bool kInt8>
SPECBOUND_DEVICE void add_chunk(const Operands& o, int first_panel, Sums& acc, Sums& total) {
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    float scale[2] = {1.0f, 1.0f};
    if (!kInt8 && first_panel + p < panels_of(o.n_rows)) {
      const float* scales = o.x_scales + (first_panel + p) * kPanelRows + 2 * (lane_index() % 4);
      scale[0] = scales[0];
      scale[1] = scales[1];
    }
    for (int i = 0; i < 4; ++i) {
      total[p][i] = total[p][i] + (kInt8 ? acc[p][i] : acc[p][i] * scale[i % 2]);
      acc[p][i] = 0;
    }
  }
}

// total = the sums of `tile` for the panels from first_panel on. The whole block calls it; a warp
// whose tile does not exist only stages. Ends with a barrier.
template <bool kInt8>
SPECBOUND_DEVICE void multiply(const Operands& o, int tile, int first_panel, Sums& total) {
  using S = Stage<kInt8>;
  constexpr int kTileWords = kStageWords / S::kBlocks;           // of 32 k, a lane
  constexpr int kBlockPanelWords = S::kPanelWords / S::kBlocks;  // of 32 k
  Word4* const staged = block_shared<Word4>();
  float* const staged_scales = block_shared<float>(2 * S::kRowBytes);

  const int lane = lane_index(), warp = warp_index();
  const int n_blocks = o.n_in / kQuantBlock, n_words = n_blocks * kTileWords;
  const bool mine = tile < o.n_tiles;
  const int panel = first_panel + warp;
  const bool panel_exists = panel < panels_of(o.n_rows);
  const Word4* w = o.w + static_cast<size_t>(tile) * n_words * kWarp + lane;
  const Word4* x = o.x + static_cast<size_t>(panel) * n_blocks * kBlockPanelWords;
  const size_t first_w_scale = static_cast<size_t>(tile) * n_blocks * 8 + lane;
  const size_t first_x_scale = static_cast<size_t>(panel) * n_blocks * kPanelRows + lane;

  // What the next stage needs, in registers until it is stored.
  Word4 rows[S::kRowWords];
  float row_scale = 0;
  const auto fetch_rows = [&](int block) {
    const int n = panel_exists ? (n_blocks - block) * kBlockPanelWords : 0;
#pragma unroll
    for (int i = 0; i < S::kRowWords; ++i) {
      const int at = i * kWarp + lane;
      rows[i] = at < n ? x[static_cast<size_t>(block) * kBlockPanelWords + at] : Word4{0, 0, 0, 0};
    }
    if constexpr (kInt8) {
      const bool exists = panel_exists && lane < S::kScales && block + lane / kPanelRows < n_blocks;
      row_scale = exists ? o.x_scales[first_x_scale + block * kPanelRows] : 0.0f;
    }
  };
  const auto store_rows = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < S::kRowWords; ++i) {
      staged[(buffer * kPanels + warp) * S::kPanelWords + i * kWarp + lane] = rows[i];
    }
    if (kInt8 && lane < S::kScales) {
      staged_scales[(buffer * kPanels + warp) * S::kScales + lane] = row_scale;
    }
  };
  const auto fetch_weights = [&](int word) {
    return mine && word < n_words ? load_once(w + static_cast<size_t>(word) * kWarp)
                                  : Word4{0, 0, 0, 0};
  };
  // Lane 8 j + g: the scales of outputs g and g + 8 in block j of the stage.
  const auto fetch_scales = [&](int block) {
    const bool exists = kInt8 && mine && lane < S::kScales && block + lane / 8 < n_blocks;
    return exists ? o.w_scales[first_w_scale + block * 8] : 0u;
  };

  Sums acc;
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    for (int i = 0; i < 4; ++i) acc[p][i] = total[p][i] = 0;
  }
  Word4 a[kStageWords];
#pragma unroll
  for (int j = 0; j < kStageWords; ++j) a[j] = fetch_weights(j);
  uint32_t scales = fetch_scales(0);
  fetch_rows(0);
  store_rows(0);
  __syncthreads();

  int chunk = 0, chunk_end = k_chunk_begin(o.n_in, 1);
  for (int begin = 0, buffer = 0; begin < n_blocks; begin += S::kBlocks, buffer ^= 1) {
    const int next = begin + S::kBlocks;
    if (next < n_blocks) fetch_rows(next);
    const uint32_t next_scales = fetch_scales(next);
    const Word4* const panels = staged + buffer * kPanels * S::kPanelWords;
    const float* const panel_scales = staged_scales + buffer * kPanels * S::kScales;
#pragma unroll
    for (int b = 0; b < S::kBlocks; ++b) {
      if (!mine || begin + b >= n_blocks) break;
      if constexpr (kInt8) {
        const uint32_t scale = shuffle(scales, 8 * b + lane / 4);
        const auto* q = reinterpret_cast<const Word2*>(panels + b * kBlockPanelWords) + lane;
        const auto* dx = reinterpret_cast<const Word2*>(panel_scales + b * kPanelRows) + lane % 4;
#pragma unroll
        for (int p = 0; p < kPanels; ++p) {
          add_block(a[b], scale, q[p * S::kPanelWords * 2], dx[p * S::kScales / 2], acc[p]);
        }
        a[b] = fetch_weights(next + b);
      } else {
        const Word4 pair[2] = {a[2 * b], a[2 * b + 1]};
#pragma unroll
        for (int p = 0; p < kPanels; ++p) {
          const Word4* block = panels + p * S::kPanelWords + b * kBlockPanelWords + lane;
          const Word4 parts[2] = {block[0], block[kWarp]};
          add_block_f16(pair, parts, acc[p]);
        }
        a[2 * b] = fetch_weights(2 * (next + b));
        a[2 * b + 1] = fetch_weights(2 * (next + b) + 1);
      }
      if (begin + b + 1 < chunk_end) continue;
      ++chunk;
      chunk_end = chunk < k_chunks(o.n_in) ? k_chunk_begin(o.n_in, chunk + 1) : 0x7fffffff;
      add_chunk<kInt8>(o, first_panel, acc, total);
    }
    scales = next_scales;
    if (next < n_blocks) store_rows(buffer ^ 1);
    __syncthreads();
  }
}

// Calls f(row, output, sum) for the sums of outputs and rows that exist.
template <class F>
SPECBOUND_DEVICE void for_each_sum(const Sums& total, int tile, int first_panel, int n_out,
                                   int n_rows, F f) {
  const int lane = lane_index();
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = (first_panel + p) * kPanelRows + 2 * (lane % 4) + i % 2;
      const int output = tile * kTileOutputs + lane / 4 + 8 * (i / 2);
      if (row < n_rows && output < n_out) f(row, output, total[p][i]);
    }
  }
}

template <bool kInt8, class Parameters>
SPECBOUND_DEVICE void prefill_matmul(const Parameters& p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels;
  const int n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int tile = static_cast<int>(blockIdx.y) * kWarps + warp_index();
  Sums total;
  multiply<kInt8>(operands(p.w, p.x, n_rows), tile, first_panel, total);
  for_each_sum(total, tile, first_panel, p.w.n_out, n_rows, [&](int row, int output, float sum) {
    float* y = p.y + static_cast<size_t>(row) * p.ldy + output;
    if (p.add) sum = *y + sum;
    *y = p.bias ? sum + p.bias[output] : sum;
  });
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_matmul_i8_kernel(PrefillMatmulI8 p) {
  prefill_matmul<true>(p);
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_matmul_f16_kernel(PrefillMatmulF16 p) {
  prefill_matmul<false>(p);
}

// total = silu(gate) * up in the first four warps, which return true; the other four hand their
// sums over through shared memory.
SPECBOUND_DEVICE bool join_gate_up(Sums& total) {
  const int warp = warp_index();
  float* const up = block_shared<float>() + (warp % kActTiles) * kPanels * 4 * kWarp + lane_index();
  if (warp >= kActTiles) {
    for (int p = 0; p < kPanels; ++p) {
      for (int i = 0; i < 4; ++i) up[(4 * p + i) * kWarp] = total[p][i];
    }
  }
  __syncthreads();
  if (warp >= kActTiles) return false;
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    for (int i = 0; i < 4; ++i) total[p][i] = silu(total[p][i]) * up[(4 * p + i) * kWarp];
  }
  return true;
}

constexpr size_t kJoinBytes = sizeof(float) * kBlockRows * kActOutputs;

template <bool kInt8, class Parameters>
SPECBOUND_DEVICE void multiply_gate_up(const Parameters& p, int tile, int first_panel, int n_rows,
                                       Sums& total) {
  const bool is_gate = warp_index() < kActTiles;
  multiply<kInt8>(operands(is_gate ? p.gate : p.up, p.x, n_rows), tile, first_panel, total);
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_gate_up_i8_kernel(PrefillGateUpI8 p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels;
  const int n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int lane = lane_index(), warp = warp_index();
  const int first_tile = static_cast<int>(blockIdx.y) * kActTiles;
  const int tile = first_tile + warp % kActTiles;
  Sums total;
  multiply_gate_up<true>(p, tile, first_panel, n_rows, total);

  // act (64, 64) of the block; a row past the last holds zeros.
  constexpr int kStride = kActOutputs + 1;
  float* const act = block_shared<float>(kJoinBytes);
  if (join_gate_up(total)) {
#pragma unroll
    for (int i = 0; i < kPanels * 4; ++i) {
      const int row = i / 4 * kPanelRows + 2 * (lane % 4) + i % 2;
      const int output = warp * kTileOutputs + lane / 4 + 8 * (i % 4 / 2);
      const bool exists = first_panel * kPanelRows + row < n_rows;
      act[row * kStride + output] = exists ? total[i / 4][i % 4] : 0.0f;
    }
  }
  __syncthreads();

  const int n_blocks = p.act.n_in / kQuantBlock;
  constexpr int kActBlocks = kActOutputs / kQuantBlock;
  for (int unit = warp; unit < kBlockRows * kActBlocks; unit += kWarps) {
    const int row = unit / kActBlocks, part = unit % kActBlocks;
    const int panel = first_panel + row / kPanelRows;
    const int block = static_cast<int>(blockIdx.y) * kActBlocks + part;
    if (panel >= panels_of(n_rows) || block >= n_blocks) continue;
    const float x = act[row * kStride + part * kQuantBlock + lane];
    const QuantScale scale = quant_scale(max_bits_of_32(magnitude_bits(x)));
    const size_t at = row_block(n_blocks, first_panel * kPanelRows + row, block);
    p.act.q[at * kQuantBlock + lane] = static_cast<int8_t>(quantized(x, scale));
    if (lane == 0) p.act.d[at] = scale.dx;
  }
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_gate_up_f16_kernel(PrefillGateUpF16 p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels;
  const int n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int tile = static_cast<int>(blockIdx.y) * kActTiles + warp_index() % kActTiles;
  Sums total;
  multiply_gate_up<false>(p, tile, first_panel, n_rows, total);
  if (!join_gate_up(total)) return;
  for_each_sum(total, tile, first_panel, p.gate.n_out, n_rows, [&](int row, int output, float act) {
    p.act[static_cast<size_t>(row) * p.ld + output] = act;
  });
}

void check(const TilesI8& w, const RowsI8& x) {
  SB_CHECK(w.n_out >= 1 && w.n_in >= kQuantBlock && w.n_in % kQuantBlock == 0);
  SB_CHECK(aligned(w.q, 16) && aligned(w.d, 4));
  SB_CHECK(x.n_in == w.n_in && aligned(x.q, 16) && aligned(x.d, 4));
}

void check(const TilesF16& w, const RowsF16& x) {
  SB_CHECK(w.n_out >= 1 && w.n_in >= 1 && aligned(w.w, 16));
  SB_CHECK(x.n_in == (w.n_in + 31) / 32 * 32 && aligned(x.x, 16) && aligned(x.scale, 4));
}

// Blocks that share weights run side by side, so that memory is read about once.
LaunchShape shape(const Pass* pass, int max_rows, int n_tiles, int block_tiles, size_t bytes) {
  SB_CHECK(aligned(pass, 4) && max_rows >= 1 && max_rows <= kMaxPrefillRows);
  return {.blocks = {static_cast<unsigned>((max_rows + kBlockRows - 1) / kBlockRows),
                     static_cast<unsigned>((n_tiles + block_tiles - 1) / block_tiles)},
          .threads = kWarps * kWarp,
          .shared_bytes = bytes};
}

template <bool kInt8, class Parameters>
LaunchShape matmul_shape(const Parameters& p) {
  check(p.w, p.x);
  SB_CHECK(aligned(p.y, 4) && p.ldy >= p.w.n_out);
  return shape(p.pass, p.max_rows, tiles_of(p.w.n_out), kWarps, Stage<kInt8>::kBytes);
}

template <bool kInt8, class Parameters>
LaunchShape gate_up_shape(const Parameters& p) {
  check(p.gate, p.x);
  check(p.up, p.x);
  SB_CHECK(p.gate.n_out == p.up.n_out);
  constexpr size_t kAct = kInt8 ? sizeof(float) * kBlockRows * (kActOutputs + 1) : 0;
  constexpr size_t kAfter = kJoinBytes + kAct, kLoop = Stage<kInt8>::kBytes;
  return shape(p.pass, p.max_rows, tiles_of(p.gate.n_out), kActTiles,
               kAfter > kLoop ? kAfter : kLoop);
}

}  // namespace

void prefill_matmul_i8(const PrefillMatmulI8& p, Stream stream) {
  launch(prefill_matmul_i8_kernel, "prefill_matmul_i8", matmul_shape<true>(p), stream, p);
}

void prefill_matmul_f16(const PrefillMatmulF16& p, Stream stream) {
  launch(prefill_matmul_f16_kernel, "prefill_matmul_f16", matmul_shape<false>(p), stream, p);
}

void prefill_gate_up_i8(const PrefillGateUpI8& p, Stream stream) {
  SB_CHECK(p.gate.n_out % kQuantBlock == 0 && p.act.n_in == p.gate.n_out);
  SB_CHECK(aligned(p.act.q, 16) && aligned(p.act.d, 4));
  launch(prefill_gate_up_i8_kernel, "prefill_gate_up_i8", gate_up_shape<true>(p), stream, p);
}

void prefill_gate_up_f16(const PrefillGateUpF16& p, Stream stream) {
  SB_CHECK(aligned(p.act, 4) && p.ld >= p.gate.n_out);
  launch(prefill_gate_up_f16_kernel, "prefill_gate_up_f16", gate_up_shape<false>(p), stream, p);
}

}  // namespace specbound::kernels
