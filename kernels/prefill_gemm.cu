// A block of 8 warps makes 128 outputs of 64 rows, each warp one tile of 16 outputs: weights go
// from memory straight into registers, each once a block, activations through shared memory, in
// stages of 64 k (FP16: 32). The next stage is under way while one is computed.
#include "prefill_gemm.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "matmul_f16.cuh"
#include "quantize.cuh"
#include "weight_forms.cuh"

namespace specbound::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kPanels = 8;                        // of a block
constexpr int kBlockRows = kPanels * kPanelRows;  // 64
constexpr int kStageWords = 2;                    // of weights, a lane
constexpr int kActTiles = kWarps / 2;             // of gate, and of up
constexpr int kActOutputs = kActTiles * kTileOutputs;
static_assert(kWarps == kPanels);  // warp i stages panel i

// What weights a kernel has code for: models of Q8_0 alone run what others do not slow down.
enum class Kind { kF16, kQ8_0, kAnyInt8 };

template <Kind kKind>
struct Stage {
  static constexpr bool kInt8 = kKind != Kind::kF16;
  static constexpr int kBlocks = kInt8 ? kStageWords : kStageWords / 2;    // of 32 k
  static constexpr int kRowWords = kInt8 ? kStageWords / 2 : kStageWords;  // of a panel, a lane
  static constexpr int kPanelWords = kRowWords * kWarp;
  static constexpr size_t kRowBytes = kPanels * kPanelWords * sizeof(Word4);
  static constexpr int kScales = kBlocks * kPanelRows;  // INT8: of a panel
  static constexpr size_t kScaleBytes = kInt8 ? kPanels * kScales * sizeof(float) : 0;
  // Of each row and block, -xsum: what mins are multiplied by.
  static constexpr size_t kSumBytes = kKind == Kind::kAnyInt8 ? kScaleBytes : 0;
  static constexpr size_t kBytes = 2 * (kRowBytes + kScaleBytes + kSumBytes);
};

struct Operands {
  const Word4* w;             // (n_tiles, words of a tile, 32 lanes)
  const uint32_t* w_scales;   // INT8: (n_tiles, n_in/32, 8)
  const Word4* x;             // (n_panels, words of a panel)
  const float* x_scales;      // INT8: (n_panels, n_in/32, 8); FP16: (n_panels, 8)
  int n_tiles, n_in, n_rows;  // n_in padded to 32
  DType type;                 // INT8: the form
  const uint32_t* w_d2;       // as TilesI8 has it
};

SPECBOUND_DEVICE Operands operands(const TilesI8& w, const RowsI8& x, int n_rows) {
  return {reinterpret_cast<const Word4*>(w.q),
          reinterpret_cast<const uint32_t*>(w.d),
          reinterpret_cast<const Word4*>(x.q),
          x.d,
          tiles_of(w.n_out),
          x.n_in,
          n_rows,
          w.type,
          w.d2};
}

SPECBOUND_DEVICE Operands operands(const TilesF16& w, const RowsF16& x, int n_rows) {
  return {reinterpret_cast<const Word4*>(w.w),
          nullptr,
          reinterpret_cast<const Word4*>(x.x),
          x.scale,
          tiles_of(w.n_out),
          x.n_in,
          n_rows,
          DType::kF16,
          nullptr};
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

// What a stage holds of a block, as its form has it.
template <class Form>
SPECBOUND_DEVICE typename Form::Values values_of(const Word4& v) {
  if constexpr (sizeof(typename Form::Values) == sizeof(Word4)) {
    return v;
  } else if constexpr (sizeof(typename Form::Values) == sizeof(Word2)) {
    return {v.x, v.y};
  } else {
    return {v.x, v.y, v.z};
  }
}
template <class Form>
SPECBOUND_DEVICE typename Form::Scales scales_of(uint32_t d, const Word2& d2) {
  if constexpr (Form::kD2Words == 2) {
    return {d, d2};
  } else if constexpr (Form::kD2Words == 1) {
    return {d, d2.x};
  } else {
    return d;
  }
}

// acc += the sums of a block of INT8 weights with all panels, whose rows of it lie at q, their
// scales at dx and -xsum at `less_sums`, a panel after another.
template <class Form, class S>
SPECBOUND_DEVICE void add_panels(const Word4& weights, const BlockFactors& of, const Word2* q,
                                 const Word2* dx, const Float2* less_sums, Sums& acc) {
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    Float2 less{};
    if constexpr (Form::kHasMins) less = less_sums[p * S::kScales / 2];
    add_block<Form>(weights, of, q[p * S::kPanelWords * 2], dx[p * S::kScales / 2], less, acc[p]);
  }
}

// total = the sums of `tile` for the panels from first_panel on. The whole block calls it; a warp
// whose tile does not exist only stages. Ends with a barrier.
template <Kind kKind>
SPECBOUND_DEVICE void multiply(const Operands& o, int tile, int first_panel, Sums& total) {
  using S = Stage<kKind>;
  constexpr bool kInt8 = S::kInt8, kAny = kKind == Kind::kAnyInt8;
  constexpr int kTileWords = kStageWords / S::kBlocks;           // of 32 k, a lane
  constexpr int kBlockPanelWords = S::kPanelWords / S::kBlocks;  // of 32 k
  Word4* const staged = block_shared<Word4>();
  float* const staged_scales = block_shared<float>(2 * S::kRowBytes);
  [[maybe_unused]] float* const staged_sums =
      block_shared<float>(2 * (S::kRowBytes + S::kScaleBytes));

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
    if constexpr (kAny) {  // two lanes have a row's 32 bytes of a block
      static_assert(S::kRowWords == 1);
      int32_t sum = add_bytes(rows[0].x, add_bytes(rows[0].y, 0));
      sum = add_bytes(rows[0].z, add_bytes(rows[0].w, sum));
      sum = sum + shuffle_xor(sum, 1);
      float* const to = staged_sums + (buffer * kPanels + warp) * S::kScales + lane / 2;
      if (lane % 2 == 0) *to = static_cast<float>(-sum);
    }
  };
  const auto fetch_weights = [&](int word) {
    const bool exists = mine && word < n_words;
    const size_t block = static_cast<size_t>(tile) * n_words + word;  // of INT8 forms
    if (kAny && bits_of_form(o.type) == 6) {
      const auto v = load_once_if(exists, lane_values<SixBitLane>(o.w, block));
      return Word4{v.x, v.y, v.z, 0};
    }
    if (kAny && bits_of_form(o.type) == 5) {
      const auto v = load_once_if(exists, lane_values<StoredFiveBits>(o.w, block));
      return Word4{v.x, v.y, v.fifths, 0};
    }
    if (kAny && bits_of_form(o.type) == 4) {
      const Word2 v = exists ? load_once(lane_values<Word2>(o.w, block)) : Word2{0, 0};
      return Word4{v.x, v.y, 0, 0};
    }
    return exists ? load_once(w + static_cast<size_t>(word) * kWarp) : Word4{0, 0, 0, 0};
  };
  // Lane 8 j + g: the scales of outputs g and g + 8 in block j of the stage.
  const auto fetch_scales = [&](int block) {
    const bool exists = kInt8 && mine && lane < S::kScales && block + lane / 8 < n_blocks;
    return exists ? o.w_scales[first_w_scale + block * 8] : 0u;
  };
  // The same of d2: a word of each output, or (Word2's first) one of both.
  const auto fetch_d2 = [&](int block) {
    const int j = block + lane / 8;
    const bool exists = kAny && mine && has_d2(o.type) && lane < S::kScales && j < n_blocks;
    if (!exists) return Word2{0, 0};
    const int blocks = d2_blocks(o.type);
    const size_t first = static_cast<size_t>(tile) * (n_blocks / blocks) + j / blocks;
    const size_t place = first * kPanelRows + lane % 8;
    return d2_of_each_output(o.type) ? reinterpret_cast<const Word2*>(o.w_d2)[place]
                                     : Word2{o.w_d2[place], 0};
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
  Word2 d2 = fetch_d2(0);
  fetch_rows(0);
  store_rows(0);
  __syncthreads();

  int chunk = 0, chunk_end = k_chunk_begin(o.n_in, 1);
  for (int begin = 0, buffer = 0; begin < n_blocks; begin += S::kBlocks, buffer ^= 1) {
    const int next = begin + S::kBlocks;
    if (next < n_blocks) fetch_rows(next);
    const uint32_t next_scales = fetch_scales(next);
    const Word2 next_d2 = fetch_d2(next);
    const Word4* const panels = staged + buffer * kPanels * S::kPanelWords;
    const float* const panel_scales = staged_scales + buffer * kPanels * S::kScales;
    [[maybe_unused]] const float* const panel_sums = staged_sums + buffer * kPanels * S::kScales;
#pragma unroll
    for (int b = 0; b < S::kBlocks; ++b) {
      if (!mine || begin + b >= n_blocks) break;
      if constexpr (kInt8) {
        const uint32_t scale = shuffle(scales, 8 * b + lane / 4);
        const auto* q = reinterpret_cast<const Word2*>(panels + b * kBlockPanelWords) + lane;
        const auto* dx = reinterpret_cast<const Word2*>(panel_scales + b * kPanelRows) + lane % 4;
        const auto* sums = reinterpret_cast<const Float2*>(panel_sums + b * kPanelRows) + lane % 4;
        const auto add = [&]<class Form>(Form) {
          Word2 of_g{0, 0};
          if constexpr (Form::kD2Words > 0) {
            of_g = {shuffle(d2.x, 8 * b + lane / 4), shuffle(d2.y, 8 * b + lane / 4)};
          }
          add_panels<Form, S>(Form::operand(values_of<Form>(a[b])),
                              Form::factors(scales_of<Form>(scale, of_g)), q, dx, sums, acc);
        };
        if constexpr (kAny) {
          as_form(o.type, add);
        } else {
          add(FormQ8_0{});
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
    d2 = next_d2;
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

template <Kind kKind, class Parameters>
SPECBOUND_DEVICE void prefill_matmul(const Parameters& p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels;
  const int n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int tile = static_cast<int>(blockIdx.y) * kWarps + warp_index();
  Sums total;
  multiply<kKind>(operands(p.w, p.x, n_rows), tile, first_panel, total);
  for_each_sum(total, tile, first_panel, p.w.n_out, n_rows, [&](int row, int output, float sum) {
    float* y = p.y + static_cast<size_t>(row) * p.ldy + output;
    if (p.add) sum = *y + sum;
    *y = p.bias ? sum + p.bias[output] : sum;
  });
}

template <Kind kKind>
__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_matmul_i8_kernel(PrefillMatmulI8 p) {
  prefill_matmul<kKind>(p);
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_matmul_f16_kernel(PrefillMatmulF16 p) {
  prefill_matmul<Kind::kF16>(p);
}

// total = activation(gate) * up in the first four warps, which return true; the other four hand
// their sums over through shared memory.
SPECBOUND_DEVICE bool join_gate_up(Activation activation, Sums& total) {
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
    for (int i = 0; i < 4; ++i) {
      total[p][i] = activated(activation, total[p][i]) * up[(4 * p + i) * kWarp];
    }
  }
  return true;
}

constexpr size_t kJoinBytes = sizeof(float) * kBlockRows * kActOutputs;

template <Kind kKind, class Parameters>
SPECBOUND_DEVICE void multiply_gate_up(const Parameters& p, int tile, int first_panel, int n_rows,
                                       Sums& total) {
  const bool is_gate = warp_index() < kActTiles;
  multiply<kKind>(operands(is_gate ? p.gate : p.up, p.x, n_rows), tile, first_panel, total);
}

template <Kind kKind>
__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_gate_up_i8_kernel(PrefillGateUpI8 p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels;
  const int n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int lane = lane_index(), warp = warp_index();
  const int first_tile = static_cast<int>(blockIdx.y) * kActTiles;
  const int tile = first_tile + warp % kActTiles;
  Sums total;
  multiply_gate_up<kKind>(p, tile, first_panel, n_rows, total);

  // act (64, 64) of the block; a row past the last holds zeros.
  constexpr int kStride = kActOutputs + 1;
  float* const act = block_shared<float>(kJoinBytes);
  if (join_gate_up(p.activation, total)) {
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
  multiply_gate_up<Kind::kF16>(p, tile, first_panel, n_rows, total);
  if (!join_gate_up(p.activation, total)) return;
  for_each_sum(total, tile, first_panel, p.gate.n_out, n_rows, [&](int row, int output, float act) {
    p.act[static_cast<size_t>(row) * p.ld + output] = act;
  });
}

void check(const TilesI8& w, const RowsI8& x) {
  check_tiles(w);
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

template <Kind kKind, class Parameters>
LaunchShape matmul_shape(const Parameters& p) {
  check(p.w, p.x);
  SB_CHECK(aligned(p.y, 4) && p.ldy >= p.w.n_out);
  return shape(p.pass, p.max_rows, tiles_of(p.w.n_out), kWarps, Stage<kKind>::kBytes);
}

template <Kind kKind, class Parameters>
LaunchShape gate_up_shape(const Parameters& p) {
  check(p.gate, p.x);
  check(p.up, p.x);
  SB_CHECK(p.gate.n_out == p.up.n_out);
  constexpr size_t kAct = Stage<kKind>::kInt8 ? sizeof(float) * kBlockRows * (kActOutputs + 1) : 0;
  constexpr size_t kAfter = kJoinBytes + kAct, kLoop = Stage<kKind>::kBytes;
  return shape(p.pass, p.max_rows, tiles_of(p.gate.n_out), kActTiles,
               kAfter > kLoop ? kAfter : kLoop);
}

template <Kind kKind>
void launch_matmul(const PrefillMatmulI8& p, Stream stream) {
  launch(prefill_matmul_i8_kernel<kKind>, "prefill_matmul_i8", matmul_shape<kKind>(p), stream, p);
}

template <Kind kKind>
void launch_gate_up(const PrefillGateUpI8& p, Stream stream) {
  launch(prefill_gate_up_i8_kernel<kKind>, "prefill_gate_up_i8", gate_up_shape<kKind>(p), stream,
         p);
}

}  // namespace

void prefill_matmul_i8(const PrefillMatmulI8& p, Stream stream) {
  if (p.w.type == DType::kQ8_0) {
    launch_matmul<Kind::kQ8_0>(p, stream);
  } else {
    launch_matmul<Kind::kAnyInt8>(p, stream);
  }
}

void prefill_matmul_f16(const PrefillMatmulF16& p, Stream stream) {
  launch(prefill_matmul_f16_kernel, "prefill_matmul_f16", matmul_shape<Kind::kF16>(p), stream, p);
}

void prefill_gate_up_i8(const PrefillGateUpI8& p, Stream stream) {
  SB_CHECK(p.gate.n_out % kQuantBlock == 0 && p.act.n_in == p.gate.n_out);
  SB_CHECK(aligned(p.act.q, 16) && aligned(p.act.d, 4));
  if (p.gate.type == DType::kQ8_0 && p.up.type == DType::kQ8_0) {
    launch_gate_up<Kind::kQ8_0>(p, stream);
  } else {
    launch_gate_up<Kind::kAnyInt8>(p, stream);
  }
}

void prefill_gate_up_f16(const PrefillGateUpF16& p, Stream stream) {
  SB_CHECK(aligned(p.act, 4) && p.ld >= p.gate.n_out);
  launch(prefill_gate_up_f16_kernel, "prefill_gate_up_f16", gate_up_shape<Kind::kF16>(p), stream,
         p);
}

}  // namespace specbound::kernels
