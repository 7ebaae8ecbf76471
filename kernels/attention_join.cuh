// The chunks' results of queries joined in their order, and quantized: by a kernel of its own
// (attention_combine.cu), or by the last blocks of the one that makes them (attention.cu).
#pragma once

#include "attention.h"
#include "finish_head.cuh"
#include "launch.cuh"
#include "quantize.cuh"

namespace specbound::kernels {

inline constexpr int kJoinedChunks = kWarp;  // at once

struct JoinStep {  // of one chunk
  float old_scale, new_scale, sum;
};

// Heads that the outputs of a block can touch.
template <int kThreads>
inline constexpr int kJoinedHeads = kThreads / 8;
// Shared memory of join_outputs().
template <int kThreads>
inline constexpr size_t kJoinBytes = kJoinedHeads<kThreads>*(kJoinedChunks * sizeof(JoinStep) +
                                                             sizeof(float));

// What chunks begin..begin + 31 of a head do to its result so far; lane i has chunk begin + i.
// Returns the largest score of all chunks until then; `before` is that before these.
SPECBOUND_DEVICE float join_steps(const float* states, int begin, int n_chunks, float before,
                                  JoinStep* steps) {
  const int lane = lane_index(), chunk = begin + lane;
  const bool there = chunk < n_chunks;
  const Float2 state =
      there ? reinterpret_cast<const Float2*>(states)[chunk] : Float2{-infinity(), 0.0f};
  float until = state.x;  // the largest of chunks begin..chunk, and of those before
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const float other = shuffle(until, (lane - step) & (kWarp - 1));
    if (lane >= step && other > until) until = other;
  }
  if (before > until) until = before;
  const float neighbour = shuffle(until, (lane - 1) & (kWarp - 1));
  const float mine_before = lane == 0 ? before : neighbour;
  if (there) {
    steps[lane] = {exp_formula(mine_before - until), exp_formula(state.x - until), state.y};
  }
  return shuffle(until, kWarp - 1);
}

// Outputs begin..begin + kThreads - 1 of a row, those from `end` on left out: one a thread. A
// warp's 32 are a block of the quantized row, whatever heads they belong to, so there `begin` is a
// multiple of 32; it is one of 8 or of kThreads, and of what heads touch no more than kJoinedHeads.
// Rows from n_rows on become zero in the last panel. The block's shared memory is free at first,
// and again behind it. kPartsInFlight: chunks whose results a thread has asked for.
template <int kThreads, int kPartsInFlight>
SPECBOUND_DEVICE void join_outputs(const Attend& p, int row, int n_rows, int begin, int end) {
  constexpr int kWarps = kThreads / kWarp;
  const int q_dim = q_dim_of(p.heads), head_dim = p.heads.head_dim;
  const int output = begin + static_cast<int>(threadIdx.x);
  const bool live = output < end, quantize = p.quantized.q != nullptr;
  const size_t place = row_block(q_dim / kQuantBlock, row, output / kQuantBlock);
  if (row >= n_rows) {
    if (quantize && live && row / kPanelRows == (n_rows - 1) / kPanelRows) {
      p.quantized.q[place * kQuantBlock + lane_index()] = 0;
      if (lane_index() == 0) p.quantized.d[place] = 0.0f;
    }
    return;
  }
  auto* steps = block_shared<JoinStep>();  // (kJoinedHeads, kJoinedChunks)
  auto* largest = block_shared<float>(kJoinedHeads<kThreads> * kJoinedChunks * sizeof(JoinStep));
  const int pos = p.sequences ? p.sequences->pos[row] : position_of(*p.pass, p.tree, row);
  const int n_chunks = pos / kAttentionChunk + 1;
  const int first_chunk = first_key(p.heads, pos) / kAttentionChunk;
  const int first_head = begin / head_dim;
  const int n_heads =
      ((begin + kThreads < end ? begin + kThreads : end) - 1) / head_dim - first_head + 1;
  const int head = (live ? output : begin) / head_dim - first_head;

  float out = 0.0f, sum = 0.0f;
  for (int chunk = first_chunk; chunk < n_chunks; chunk += kJoinedChunks) {
    for (int i = warp_index(); i < n_heads; i += kWarps) {
      const size_t of_row = static_cast<size_t>(row) * p.heads.n_heads + first_head + i;
      const float before = chunk > first_chunk ? largest[i] : -infinity();
      const float until =
          join_steps(p.part_states + of_row * 2 * (p.heads.kv.n_ctx / kAttentionChunk), chunk,
                     n_chunks, before, steps + i * kJoinedChunks);
      __syncwarp();  // all lanes have read `before`
      if (lane_index() == 0) largest[i] = until;
    }
    __syncthreads();
    const int left = n_chunks - chunk, count = left < kJoinedChunks ? left : kJoinedChunks;
    for (int first = 0; first < count; first += kPartsInFlight) {
      float part[kPartsInFlight];
#pragma unroll
      for (int i = 0; i < kPartsInFlight; ++i) {
        const size_t at = (static_cast<size_t>(chunk + first + i) * kMaxDecodeRows + row) * q_dim;
        part[i] = live && first + i < count ? p.part_outputs[at + output] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kPartsInFlight; ++i) {
        if (first + i >= count) continue;
        const JoinStep& step = steps[head * kJoinedChunks + first + i];
        sum = fused(step.sum, step.new_scale, sum * step.old_scale);
        out = fused(part[i], step.new_scale, out * step.old_scale);
      }
    }
    __syncthreads();  // steps have been read
  }
  const float result = live ? out * (1.0f / sum) : 0.0f;
  if (live) p.attended[static_cast<size_t>(row) * q_dim + output] = result;
  if (!quantize) return;
  const QuantScale scale = quant_scale(max_bits_of_32(magnitude_bits(result)));
  if (!live) return;
  p.quantized.q[place * kQuantBlock + lane_index()] = static_cast<int8_t>(quantized(result, scale));
  if (lane_index() == 0) p.quantized.d[place] = scale.dx;
}

}  // namespace specbound::kernels
