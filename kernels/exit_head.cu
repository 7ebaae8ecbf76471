// Exit logits with their peaks, and what is made of those.
#include "exit_head.h"

#include "float_formula.cuh"
#include "matmul_int8.cuh"
#include "quantize.cuh"

namespace specbound::kernels {
namespace {

constexpr int kMaxWarps = 8;  // of exit_logits

constexpr int warps_for(int chunks) {
  return 2 * chunks < kMaxWarps ? 2 * chunks : kMaxWarps;
}

SPECBOUND_DEVICE float larger(float a, float b) {  // b where a is NaN
  return a > b ? a : b;
}

// exp((x - top) scale) for x <= top; 0 for NaN and -inf.
SPECBOUND_DEVICE float peak_weight(float x, float top, float scale) {
  return exp_formula(larger((x - top) * scale, -100.0f));
}

// The chunk whose logits lane l of a warp holds: a is number l, b number l + 32, -inf past the end.
// Virtual lane i has numbers i, i + 16, i + 32 and i + 48, in this order.
SPECBOUND_DEVICE void store_peaks(float a, float b, float temperature, PeakChunk* chunk) {
  const float a_above = shuffle_xor(a, 16), b_above = shuffle_xor(b, 16);
  float highest = larger(a, -infinity());
  highest = larger(a_above, highest);
  highest = larger(b, highest);
  highest = larger(b_above, highest);
  for (int step = 8; step >= 1; step /= 2) highest = larger(highest, shuffle_xor(highest, step));
  highest = shuffle(highest, 0);  // lane 0 has the CPU's of +0 and -0
  const float scale = 1.0f / temperature;
  float weight[2] = {0.0f, 0.0f};
  if (finite(highest)) {
    weight[0] = peak_weight(a, highest, scale);
    weight[1] = peak_weight(b, highest, scale);
  }
  const float above[2] = {shuffle_xor(weight[0], 16), shuffle_xor(weight[1], 16)};
  const int lane = lane_index();
  if (lane < 16) chunk->sum[lane] = ((weight[0] + above[0]) + weight[1]) + above[1];
  if (lane == 0) chunk->highest = highest;
}

// Two units of 32 outputs of S chunks of K, each a warp's; eight warps at most.
SPECBOUND_DEVICE void exit_logits_units(const ExitLogits& p) {
  float* sums = block_shared<float>();  // (2 S, 32): of the first row alone
  const int chunks = k_chunks(p.w.n_in), warp = warp_index(), lane = lane_index();
  const float temperature = p.rule->temperature;  // on its way while the weights are
#pragma unroll 1
  for (int i = warp; i < 2 * chunks; i += warps_for(chunks)) {
    const int unit = 2 * static_cast<int>(blockIdx.x) + i / chunks, chunk = i % chunks;
    if (unit >= units_of(p.w.n_out)) break;
    const int begin = k_chunk_begin(p.w.n_in, chunk), end = k_chunk_begin(p.w.n_in, chunk + 1);
    float acc[1][2][4] = {};
    as_form(p.w.type, [&]<class Any>(Any) {
      using Form = By256<Any, true>;
      WeightStream<Form, Form::kAhead> stream(p.w, unit, {begin, end});
      stream.start();
      chunk_sums<1, Form::kAhead>(stream, p.x, 1, acc);
    });
    if (lane % 4 == 0) {
      float* mine = sums + i * kUnitOutputs + lane / 4;
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        mine[kTileOutputs * tile] = acc[0][tile][0];
        mine[kTileOutputs * tile + 8] = acc[0][tile][2];
      }
    }
  }
  __syncthreads();
  if (warp > 0) return;
  float z[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int output = kPeakChunk * static_cast<int>(blockIdx.x) + kUnitOutputs * i + lane;
    float total = 0.0f;
    if (output < p.w.n_out) {
      for (int c = 0; c < chunks; ++c) total = total + sums[(i * chunks + c) * kUnitOutputs + lane];
      if (p.softcap > 0) total = softcap(total, p.softcap);
      p.z[output] = total;
    }
    z[i] = output < p.w.n_out ? total : -infinity();
  }
  store_peaks(z[0], z[1], temperature, p.peaks + blockIdx.x);
}

__global__ void __launch_bounds__(kMaxWarps* kWarp, 2) exit_logits_kernel(ExitLogits p) {
  exit_logits_units(p);
}

__global__ void __launch_bounds__(kMaxWarps* kWarp, 2) exit_logits_q8_0_kernel(ExitLogits p) {
  let_be_q8_0(p.w);
  exit_logits_units(p);
}

constexpr int kPeakWarps = 8;  // a chunk each

__global__ void __launch_bounds__(kPeakWarps* kWarp) peak_chunks_kernel(PeakChunks p) {
  const int chunk = static_cast<int>(blockIdx.x) * kPeakWarps + warp_index();
  if (chunk >= peak_chunks_of(p.n)) return;  // the whole warp
  const int first = chunk * kPeakChunk + lane_index();
  store_peaks(first < p.n ? p.z[first] : -infinity(),
              first + kWarp < p.n ? p.z[first + kWarp] : -infinity(), p.rule->temperature,
              p.peaks + chunk);
}

// ---- the decision ----

constexpr int kJoinThreads = 256;
constexpr int kJoinWarps = kJoinThreads / kWarp;
constexpr int kJoined = 256;  // chunks in shared memory at once
constexpr int kChunkFloats = sizeof(PeakChunk) / sizeof(float);

struct Highest {
  float value;
  int chunk;
};

SPECBOUND_DEVICE Highest first_highest(const Highest& a, const Highest& b) {
  return a.value > b.value || (a.value == b.value && a.chunk < b.chunk) ? a : b;
}

// Of all chunks; every thread returns it.
SPECBOUND_DEVICE Highest find_highest(const PeakChunk* peaks, int n_chunks, Highest* of_warps) {
  Highest mine{-infinity(), 0x7fffffff};
  for (int c = static_cast<int>(threadIdx.x); c < n_chunks; c += kJoinThreads) {
    mine = first_highest(mine, {peaks[c].highest, c});
  }
  for (int step = kWarp / 2; step >= 1; step /= 2) {
    mine = first_highest(mine, {shuffle_xor(mine.value, step), shuffle_xor(mine.chunk, step)});
  }
  if (lane_index() == 0) of_warps[warp_index()] = mine;
  __syncthreads();
  for (int w = 0; w < kJoinWarps; ++w) mine = first_highest(mine, of_warps[w]);
  return mine;
}

// The first place of `peak` in its chunk; for a warp.
SPECBOUND_DEVICE int place_of(float peak, int chunk, const float* z, int n) {
  const int first = chunk * kPeakChunk + lane_index();
  const uint32_t low = ballot(first < n && z[first] == peak);
  const uint32_t high = ballot(first + kWarp < n && z[first + kWarp] == peak);
  const uint32_t set = low ? low : high;
  const int lowest = 31 - leading_zeros(set & (0u - set));
  return chunk * kPeakChunk + (low ? 0 : kWarp) + lowest;
}

__global__ void __launch_bounds__(kJoinThreads) join_peaks_kernel(JoinPeaks p) {
  float* staged = block_shared<float>();  // (kJoined, kChunkFloats)
  constexpr size_t kStagedBytes = kJoined * sizeof(PeakChunk);
  float* weight = block_shared<float>(kStagedBytes);  // (kJoined)
  Highest* of_warps = block_shared<Highest>(kStagedBytes + kJoined * sizeof(float));
  const int thread = static_cast<int>(threadIdx.x), n_chunks = peak_chunks_of(p.n);
  const ExitRule rule = *p.rule;
  const Highest top = find_highest(p.peaks, n_chunks, of_warps);
  const float scale = 1.0f / rule.temperature;
  float total = 0.0f;  // virtual lane `thread`
  if (finite(top.value)) {
    for (int begin = 0; begin < n_chunks; begin += kJoined) {
      const int count = n_chunks - begin < kJoined ? n_chunks - begin : kJoined;
      const float* from = reinterpret_cast<const float*>(p.peaks + begin);
      __syncthreads();  // the chunks before these have been added
      for (int i = thread; i < count * kChunkFloats; i += kJoinThreads) staged[i] = from[i];
      if (thread < count) {
        weight[thread] = peak_weight(p.peaks[begin + thread].highest, top.value, scale);
      }
      __syncthreads();
      if (thread >= 16) continue;
#pragma unroll 8
      for (int c = 0; c < count; ++c) {
        total = fused(staged[c * kChunkFloats + thread], weight[c], total);
      }
    }
  }
  if (warp_index() > 0) return;
  const float sum = sum_of_16(total);
  float confidence = top.value > 0 ? 1.0f : 0.0f;
  if (finite(top.value)) confidence = 1.0f / sum;
  int place = 0;
  if (top.value > -infinity()) place = place_of(top.value, top.chunk, p.z, p.n);
  if (thread > 0) return;
  const int32_t token = p.ids ? p.ids[place] : place;
  const bool exits = confidence >= rule.threshold;
  if (p.drawn_rows) *p.drawn_rows = exits ? 1 : 0;
  store_for_host(
      reinterpret_cast<Word4*>(p.decision),
      Word4{bits_of(confidence), static_cast<uint32_t>(token), exits ? 1u : 0u, rule.number});
}

__global__ void tell_decision_kernel(TellDecision p) {
  if (threadIdx.x > 0) return;
  store_for_host(reinterpret_cast<Word4*>(p.to), *reinterpret_cast<const Word4*>(p.from));
}

// ---- chained heads ----

constexpr int kSiluWarps = 4;  // a block of 32 each

__global__ void __launch_bounds__(kSiluWarps* kWarp) silu_quantize_kernel(SiluQuantize p) {
  const int block = static_cast<int>(blockIdx.x) * kSiluWarps + warp_index(), lane = lane_index();
  if (block >= p.out.n_in / kQuantBlock) return;  // the whole warp
  const float act = silu(p.x[block * kQuantBlock + lane]);
  const QuantScale scale = quant_scale(max_bits_of_32(magnitude_bits(act)));
  const size_t place = static_cast<size_t>(block) * kPanelRows;
  int8_t* q = p.out.q + place * kQuantBlock;
  q[lane] = static_cast<int8_t>(quantized(act, scale));
  for (int i = lane; i < (kPanelRows - 1) * kQuantBlock / 4; i += kWarp) {
    reinterpret_cast<uint32_t*>(q + kQuantBlock)[i] = 0;
  }
  if (lane < kPanelRows) p.out.d[place + lane] = lane == 0 ? scale.dx : 0.0f;
}

// ---- medusa and hydra heads ----

constexpr int kAddThreads = 128;

__global__ void __launch_bounds__(kAddThreads) add_silu_kernel(AddSilu p) {
  const int i = static_cast<int>(blockIdx.x) * kAddThreads + static_cast<int>(threadIdx.x);
  if (i >= p.n) return;
  const float act = silu(p.y[i] + p.bias[i]);
  p.y[i] = p.x ? act + p.x[i] : act;
}

unsigned blocks_for(int n, int per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

}  // namespace

void exit_logits(const ExitLogits& p, Stream stream) {
  SB_CHECK(p.rule != nullptr && p.z != nullptr && p.peaks != nullptr);
  SB_CHECK(p.x.n_in == p.w.n_in && aligned(p.x.q, 16) && aligned(p.x.d, 8));
  check_tiles(p.w);
  const int chunks = k_chunks(p.w.n_in);
  const bool q8_0 = p.w.type == DType::kQ8_0;
  launch(q8_0 ? exit_logits_q8_0_kernel : exit_logits_kernel, "exit_logits",
         {{blocks_for(p.w.n_out, kPeakChunk)},
          warps_for(chunks) * kWarp,
          2 * chunks * kUnitOutputs * sizeof(float)},
         stream, p);
}

void peak_chunks(const PeakChunks& p, Stream stream) {
  SB_CHECK(p.rule != nullptr && p.z != nullptr && p.n >= 1 && p.peaks != nullptr);
  launch(peak_chunks_kernel, "peak_chunks",
         {{blocks_for(p.n, kPeakWarps * kPeakChunk)}, kPeakWarps * kWarp, 0}, stream, p);
}

void join_peaks(const JoinPeaks& p, Stream stream) {
  SB_CHECK(p.rule != nullptr && p.peaks != nullptr && p.z != nullptr && p.n >= 1);
  SB_CHECK(aligned(p.decision, 16));
  launch(join_peaks_kernel, "join_peaks",
         {{1},
          kJoinThreads,
          kJoined * (sizeof(PeakChunk) + sizeof(float)) + kJoinWarps * sizeof(Highest)},
         stream, p);
}

void tell_decision(const TellDecision& p, Stream stream) {
  SB_CHECK(aligned(p.from, 16) && aligned(p.to, 16));
  launch(tell_decision_kernel, "tell_decision", {{1}, kWarp, 0}, stream, p);
}

void silu_quantize(const SiluQuantize& p, Stream stream) {
  SB_CHECK(p.x != nullptr && p.out.n_in >= kQuantBlock && p.out.n_in % kQuantBlock == 0);
  SB_CHECK(aligned(p.out.q, 4) && aligned(p.out.d, 4));
  launch(silu_quantize_kernel, "silu_quantize",
         {{blocks_for(p.out.n_in / kQuantBlock, kSiluWarps)}, kSiluWarps * kWarp, 0}, stream, p);
}

void add_silu(const AddSilu& p, Stream stream) {
  SB_CHECK(p.y != nullptr && p.bias != nullptr && p.x != p.y && p.n >= 1);
  launch(add_silu_kernel, "add_silu", {{blocks_for(p.n, kAddThreads)}, kAddThreads, 0}, stream, p);
}

}  // namespace specbound::kernels
