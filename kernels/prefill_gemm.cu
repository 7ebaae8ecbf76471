// A block of 8 warps makes 128 outputs of 64 rows, each warp one tile of 16 outputs: weights go
// from memory straight into registers, each once a block, activations through shared memory, in
// stages of 128 k (FP16: 32). The next stage is under way while one is computed.
#include "prefill_gemm.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "matmul_f16.cuh"
#include "matmul_int8.cuh"
#include "quantize.cuh"

namespace specbound::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kPanels = 8;                        // of a block
constexpr int kBlockRows = kPanels * kPanelRows;  // 64
constexpr int kActTiles = kWarps / 2;             // of gate, and of up
constexpr int kActOutputs = kActTiles * kTileOutputs;
static_assert(kWarps == kPanels);  // warp i stages panel i

// Rows of a block, 128 k of them (FP16: 32), as they lie in shared memory, and the parts in which
// they come there.
template <bool kInt8>
struct Stage {
  static constexpr int kBlocks = kInt8 ? 4 : 1;  // of 32 k
  static constexpr int kPartBlocks = kInt8 ? 2 : 1;
  static constexpr int kBlockWords = kInt8 ? kWarp / 2 : 2 * kWarp;  // of a panel's 32 k
  static constexpr int kPartWords = kPartBlocks * kBlockWords;
  static constexpr int kPanelWords = kBlocks * kBlockWords;
  static constexpr int kScales = kInt8 ? kBlocks * kPanelRows : 0;  // of a panel
  // INT8: for each row and block its scale, and -xsum, whose product mins are multiplied by.
  static constexpr size_t kRowBytes = kPanels * kPanelWords * sizeof(Word4);
  static constexpr size_t kScaleBytes = kPanels * kScales * sizeof(float);
  static constexpr size_t kBytes = 2 * (kRowBytes + 2 * kScaleBytes);

  SPECBOUND_DEVICE static Word4* rows(int buffer, int panel) {
    return block_shared<Word4>() + (buffer * kPanels + panel) * kPanelWords;
  }
  SPECBOUND_DEVICE static float* scales(int buffer, int panel) {
    return block_shared<float>(2 * kRowBytes) + (buffer * kPanels + panel) * kScales;
  }
  SPECBOUND_DEVICE static float* less_sums(int buffer, int panel) {
    return scales(buffer, panel) + 2 * kPanels * kScales;
  }
};

// A part of this warp's panel of the next stage on its way to shared memory.
template <bool kInt8, bool kSums>
struct PanelStream {
  using S = Stage<kInt8>;
  static constexpr int kLaneWords = S::kPartWords / kWarp;
  static constexpr int kPartScales = S::kPartBlocks * kPanelRows;
  const Word4* x;
  const float* d;   // of INT8 rows
  int block, left;  // of all panels, from the next part on; how many of this one
  Word4 words[kLaneWords];
  float scale = 0;

  SPECBOUND_DEVICE PanelStream(const void* rows, const float* d, int n_in, int panel, int n_rows)
      : x(static_cast<const Word4*>(rows)),
        d(d),
        block(panel * (n_in / kQuantBlock)),
        left(panel < panels_of(n_rows) ? n_in / kQuantBlock : 0) {}

  SPECBOUND_DEVICE void fetch() {
    const int lane = lane_index();
    const Word4* const from = x + static_cast<size_t>(block) * S::kBlockWords + lane;
#pragma unroll
    for (int i = 0; i < kLaneWords; ++i) {
      const bool exists = i * kWarp + lane < left * S::kBlockWords;
      words[i] = exists ? from[i * kWarp] : Word4{0, 0, 0, 0};
    }
    if constexpr (kInt8) {
      const bool exists = lane < kPartScales && lane < left * kPanelRows;
      scale = exists ? d[static_cast<size_t>(block) * kPanelRows + lane] : 0.0f;
    }
    block += S::kPartBlocks;
    left -= S::kPartBlocks;
  }
  // As part `part` of a stage.
  SPECBOUND_DEVICE void store(int buffer, int part) const {
    const int lane = lane_index(), panel = warp_index();
#pragma unroll
    for (int i = 0; i < kLaneWords; ++i) {
      S::rows(buffer, panel)[part * S::kPartWords + i * kWarp + lane] = words[i];
      if constexpr (kSums) {  // two lanes have a row's 32 bytes of a block
        int32_t sum = add_bytes(words[i].x, add_bytes(words[i].y, 0));
        sum = add_bytes(words[i].z, add_bytes(words[i].w, sum));
        sum = sum + shuffle_xor(sum, 1);
        float* const to = S::less_sums(buffer, panel) + part * kPartScales + (i * kWarp + lane) / 2;
        if (lane % 2 == 0) *to = static_cast<float>(-sum);
      }
    }
    if (kInt8 && lane < kPartScales) S::scales(buffer, panel)[part * kPartScales + lane] = scale;
  }
};

// Sums of a tile for all panels of the block, in the mma's places: total[p][i] is of output
// g + 8 (i / 2) and row 2 t + i % 2 of panel p.
using Sums = float[kPanels][4];

// Blocks of K until the chunk ends, chunk after chunk. There are a power of two of them.
struct ChunkEnds {
  int n_blocks, shift, chunk = 0, left = 0;

  SPECBOUND_DEVICE explicit ChunkEnds(int n_in)
      : n_blocks(n_in / kQuantBlock), shift(count_bits(static_cast<uint32_t>(k_chunks(n_in) - 1))) {
    left = begin_of(1);
  }
  // k_chunk_begin() in 32 bits: n_in is below 2^31.
  SPECBOUND_DEVICE int begin_of(int c) const {
    return static_cast<int>((static_cast<uint32_t>(n_blocks) * static_cast<uint32_t>(c)) >> shift);
  }
  // A block is computed: was it the last one of a chunk?
  SPECBOUND_DEVICE bool at_end() {
    if (--left > 0) return false;
    ++chunk;
    left = begin_of(chunk + 1) - begin_of(chunk);
    return true;
  }
};

// total += the sums of `tile` for the panels from first_panel on. The whole block calls it; a warp
// without a tile (one past the last) only stages. Ends with a barrier.
template <class Form>
SPECBOUND_DEVICE void multiply_i8(const TilesI8& tiles, const RowsI8& x, int n_rows, int tile,
                                  int first_panel, Sums& total) {
  using S = Stage<true>;
  // Blocks of weights on their way: with two of three words there are not enough registers.
  constexpr int kAhead = Form::kHasMins && sizeof(typename Form::Values) > sizeof(Word2) ? 1 : 2;
  static_assert(S::kPartBlocks % kAhead == 0);
  const int lane = lane_index(), n_blocks = x.n_in / kQuantBlock;
  const bool mine = tile < tiles_of(tiles.n_out);
  WeightStream<Form, kAhead, 1> w(tiles, tile, {0, mine ? n_blocks : 0});
  PanelStream<true, Form::kHasMins> rows(x.q, x.d, x.n_in, first_panel + warp_index(), n_rows);
  w.start();
#pragma unroll 1
  for (int part = 0; part < S::kBlocks / S::kPartBlocks; ++part) {
    rows.fetch();
    rows.store(0, part);
  }
  __syncthreads();

  Sums acc = {};
  ChunkEnds ends(x.n_in);
#pragma unroll 1
  for (int begin = 0; begin < n_blocks; begin += S::kBlocks) {
    const int buffer = begin / S::kBlocks % 2;
    const auto* q = reinterpret_cast<const Word2*>(S::rows(buffer, 0)) + lane;
    const auto* dx = reinterpret_cast<const Word2*>(S::scales(buffer, 0)) + lane % 4;
#pragma unroll 1
    for (int part = 0; part < S::kBlocks / S::kPartBlocks; ++part) {
      rows.fetch();
#pragma unroll
      for (int b = 0; b < S::kPartBlocks; ++b) {
        if (b >= w.left) break;
        const Word4 weights = Form::operand(w.values[b % kAhead][0]);
        const BlockFactors factors = Form::factors(w.scales[b % kAhead][0]);
        // What fetch() finds it might have to keep: cleared, it takes no registers until then.
        w.values[b % kAhead][0] = {};
        w.scales[b % kAhead][0] = {};
        w.fetch(b % kAhead, b + kAhead);
#pragma unroll
        for (int p = 0; p < kPanels; ++p) {
          const int scale = (p * S::kScales + b * kPanelRows) / 2;
          Float2 less{};
          if constexpr (Form::kHasMins) {
            const Word2 bits = dx[kPanels * S::kScales + scale];
            less = {float_of(bits.x) * float_of(dx[scale].x),
                    float_of(bits.y) * float_of(dx[scale].y)};
          }
          add_block<Form>(weights, factors, q[2 * (p * S::kPanelWords + b * S::kBlockWords)],
                          dx[scale], less, acc[p]);
        }
        if (!ends.at_end()) continue;
#pragma unroll
        for (int p = 0; p < kPanels; ++p) {
          for (int i = 0; i < 4; ++i) {
            total[p][i] = total[p][i] + acc[p][i];
            acc[p][i] = 0;
          }
        }
      }
      w.advance(S::kPartBlocks);
      q += 2 * S::kPartWords;
      dx += S::kPartBlocks * kPanelRows / 2;
      rows.store(buffer ^ 1, part);
    }
    __syncthreads();
  }
}

// The same of FP16 weights: a chunk's sums times the rows' scales, as decode has it.
SPECBOUND_DEVICE void multiply_f16(const TilesF16& tiles, const RowsF16& x, int n_rows, int tile,
                                   int first_panel, Sums& total) {
  using S = Stage<false>;
  const int lane = lane_index(), n_blocks = x.n_in / kQuantBlock;
  int left = tile < tiles_of(tiles.n_out) ? n_blocks : 0;
  const Word4* w = reinterpret_cast<const Word4*>(tiles.w) +
                   static_cast<size_t>(tile) * n_blocks * 2 * kWarp + lane;
  PanelStream<false, false> rows(x.x, nullptr, x.n_in, first_panel + warp_index(), n_rows);
  Word4 weights[2];  // of the next block
  const auto fetch = [&] {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      weights[i] = left > 0 ? load_once(w + i * kWarp) : Word4{0, 0, 0, 0};
    }
    w += 2 * kWarp;
  };
  fetch();
  rows.fetch();
  rows.store(0, 0);
  __syncthreads();

  Sums acc = {};
  ChunkEnds ends(x.n_in);
#pragma unroll 1
  for (int block = 0, buffer = 0; block < n_blocks; ++block, buffer ^= 1) {
    rows.fetch();
    if (left > 0) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        const Word4* panel = S::rows(buffer, p) + lane;
        const Word4 parts[2] = {panel[0], panel[kWarp]};
        add_block_f16(weights, parts, acc[p]);
      }
      --left;
      fetch();
      if (ends.at_end()) {
#pragma unroll
        for (int p = 0; p < kPanels; ++p) {
          float scale[2] = {1.0f, 1.0f};
          if (first_panel + p < panels_of(n_rows)) {
            const float* scales = x.scale + (first_panel + p) * kPanelRows + 2 * (lane % 4);
            scale[0] = scales[0];
            scale[1] = scales[1];
          }
          for (int i = 0; i < 4; ++i) {
            total[p][i] = total[p][i] + acc[p][i] * scale[i % 2];
            acc[p][i] = 0;
          }
        }
      }
    }
    rows.store(buffer ^ 1, 0);
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

template <class Parameters, class Multiply>
SPECBOUND_DEVICE void prefill_matmul(const Parameters& p, const Multiply& multiply) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels;
  const int n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int tile = static_cast<int>(blockIdx.y) * kWarps + warp_index();
  Sums total = {};
  multiply(p.w, p.x, n_rows, tile, first_panel, total);
  // Read again: kept meanwhile it would take a register that the product needs.
  for_each_sum(total, tile, first_panel, p.w.n_out, p.pass->n_rows,
               [&](int row, int output, float sum) {
                 float* y = p.y + static_cast<size_t>(row) * p.ldy + output;
                 if (p.add) sum = *y + sum;
                 *y = p.bias ? sum + p.bias[output] : sum;
               });
}

template <class Form>
__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_matmul_i8_kernel(PrefillMatmulI8 p) {
  prefill_matmul(p, multiply_i8<Form>);
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_matmul_f16_kernel(PrefillMatmulF16 p) {
  prefill_matmul(p, multiply_f16);
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

// act of the block from its sums, those of gate in the first four warps, of up in the others.
SPECBOUND_DEVICE void store_act(const PrefillGateUpI8& p, int first_panel, int n_rows,
                                Sums& total) {
  const int lane = lane_index(), warp = warp_index();
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

// Of gate in the first four warps, of up in the others.
SPECBOUND_DEVICE int gate_up_tile() {
  return static_cast<int>(blockIdx.y) * kActTiles + warp_index() % kActTiles;
}

template <class Form>
__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_gate_up_i8_kernel(PrefillGateUpI8 p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels, n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  Sums total = {};
  const TilesI8& w = warp_index() < kActTiles ? p.gate : p.up;
  multiply_i8<Form>(w, p.x, n_rows, gate_up_tile(), first_panel, total);
  store_act(p, first_panel, p.pass->n_rows, total);
}

// Where gate and up differ in type. The whole block has one form at a time, and stages the rows for
// both.
__global__ void __launch_bounds__(kWarps* kWarp) prefill_gate_up_mixed_kernel(PrefillGateUpI8 p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels, n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  Sums total = {};
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    const bool gate = turn == 0;
    const TilesI8& w = gate ? p.gate : p.up;
    const bool mine = gate == (warp_index() < kActTiles);
    as_form(w.type, [&]<class Form>(Form) {
      multiply_i8<Form>(w, p.x, n_rows, mine ? gate_up_tile() : tiles_of(w.n_out), first_panel,
                        total);
    });
  }
  store_act(p, first_panel, n_rows, total);
}

__global__ void __launch_bounds__(kWarps* kWarp, 2) prefill_gate_up_f16_kernel(PrefillGateUpF16 p) {
  const int first_panel = static_cast<int>(blockIdx.x) * kPanels, n_rows = p.pass->n_rows;
  if (first_panel * kPanelRows >= n_rows) return;
  const int tile = gate_up_tile();
  Sums total = {};
  multiply_f16(warp_index() < kActTiles ? p.gate : p.up, p.x, n_rows, tile, first_panel, total);
  if (!join_gate_up(p.activation, total)) return;
  for_each_sum(total, tile, first_panel, p.gate.n_out, p.pass->n_rows,
               [&](int row, int output, float act) {
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
  const LaunchShape shape = matmul_shape<true>(p);
  as_form(p.w.type, [&]<class Form>(Form) {
    launch(prefill_matmul_i8_kernel<Form>, "prefill_matmul_i8", shape, stream, p);
  });
}

void prefill_matmul_f16(const PrefillMatmulF16& p, Stream stream) {
  launch(prefill_matmul_f16_kernel, "prefill_matmul_f16", matmul_shape<false>(p), stream, p);
}

void prefill_gate_up_i8(const PrefillGateUpI8& p, Stream stream) {
  SB_CHECK(p.gate.n_out % kQuantBlock == 0 && p.act.n_in == p.gate.n_out);
  SB_CHECK(aligned(p.act.q, 16) && aligned(p.act.d, 4));
  const LaunchShape shape = gate_up_shape<true>(p);
  if (p.gate.type != p.up.type) {
    launch(prefill_gate_up_mixed_kernel, "prefill_gate_up_mixed", shape, stream, p);
    return;
  }
  as_form(p.gate.type, [&]<class Form>(Form) {
    launch(prefill_gate_up_i8_kernel<Form>, "prefill_gate_up_i8", shape, stream, p);
  });
}

void prefill_gate_up_f16(const PrefillGateUpF16& p, Stream stream) {
  SB_CHECK(aligned(p.act, 4) && p.ld >= p.gate.n_out);
  launch(prefill_gate_up_f16_kernel, "prefill_gate_up_f16", gate_up_shape<false>(p), stream, p);
}

}  // namespace specbound::kernels
