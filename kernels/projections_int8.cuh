// What the INT8 matmuls of a decode pass and those of experts share: how much a kernel keeps on its
// way, the rows that gate and up leave, and what launchers check.
#pragma once

#include "float_formula.cuh"
#include "matmul_int8.cuh"
#include "projections.cuh"
#include "projections.h"
#include "quantize.cuh"

namespace specbound::kernels {

inline constexpr int kUnitThreads = kUnitWarps * kWarp;

// Blocks of a multiprocessor: weights of Q8_0 alone and rows of one panel leave registers for
// three, which an H200 has bandwidth for. (The executor has no launch bounds, so no use for it.)
[[maybe_unused]] constexpr int blocks_at_once(bool q8_0, int panels) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  if (q8_0 && panels == 1) return 3;
#endif
  (void)q8_0, (void)panels;
  return 2;
}

// With registers for three blocks; for two, all forms in one kernel, and Q8_0 alone; for two
// panels.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr Depth kAnyForm{0, 2};  // its products take more registers
#else
inline constexpr Depth kAnyForm{0, 4};
#endif
inline constexpr Depth kThreeBlocks{1, 1}, kOnePanel{0, 4}, kTwoPanels{2, 1}, kTwoOfQ8_0{2, 2};

constexpr Depth depth_of(bool q8_0, int panels) {
  if (panels > 1) return q8_0 ? kTwoOfQ8_0 : kTwoPanels;
  return q8_0 ? kThreeBlocks : kAnyForm;
}

// Quantized rows of the block's units, from unit `first` on, whose sums of gate, then of up, are in
// shared memory.
template <class GateUp>
SPECBOUND_DEVICE void store_gate_up(const GateUp& p, int first, int n_rows, int n_warps) {
  const float* sums = block_shared<float>();
  const int chunks = k_chunks(p.x.n_in), units = kUnitWarps / chunks, warp = warp_index();
  const int n_units = p.gate.n_out / kUnitOutputs;
  // A warp has 32 outputs of a row: a block of the next matmul's input.
  const int rows = panels_of(n_rows) * kPanelRows, n_blocks = p.out.n_in / kQuantBlock;
  for (int i = warp; i < units * rows; i += n_warps) {
    const int row = i % rows, unit = first + i / rows;
    if (unit >= n_units) return;
    float act = 0.0f;
    if (row < n_rows) {
      const float* of_gate = sums + (i / rows) * chunks * kSumsOfWarp;
      const float* of_up = of_gate + kUnitWarps * kSumsOfWarp;
      const float gate = total_of(of_gate, chunks, row, lane_index());
      act = activated(p.activation, gate) * total_of(of_up, chunks, row, lane_index());
    }
    const QuantScale scale = quant_scale(max_bits_of_32(magnitude_bits(act)));
    const size_t place = row_block(n_blocks, row, unit);
    p.out.q[place * kQuantBlock + lane_index()] = static_cast<int8_t>(quantized(act, scale));
    if (lane_index() == 0) p.out.d[place] = scale.dx;
  }
}

inline void check_rows(const RowsI8& x) {
  SB_CHECK(x.n_in >= kQuantBlock && x.n_in % kQuantBlock == 0);
  SB_CHECK(aligned(x.q, 16) && aligned(x.d, 8));
}

inline void check_weights(const TilesI8& w, int n_in) {
  SB_CHECK(w.n_in == n_in);
  check_tiles(w);
}

}  // namespace specbound::kernels
