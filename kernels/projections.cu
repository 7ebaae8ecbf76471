// The INT8 matmuls of a decode pass; the product itself is matmul_int8.cuh.
#include "projections.h"

#include <algorithm>

#include "float_formula.cuh"
#include "matmul_int8.cuh"
#include "projections.cuh"
#include "quantize.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = kUnitWarps * kWarp;

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

template <bool kQ8_0, int kPanels>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kQ8_0, kPanels))
    project_kernel(Project p) {
  for (TilesI8& part : p.parts) {
    if (kQ8_0) let_be_q8_0(part);
  }
  project_units<kPanels, depth_of(kQ8_0, kPanels)>(p);
}

// Its blocks are so few that it rather keeps more weights on their way.
template <bool kQ8_0, int kPanels>
__global__ void __launch_bounds__(kThreads, 2) project_residual_kernel(ProjectResidual p) {
  if (kQ8_0) let_be_q8_0(p.w);
  project_residual_units<kPanels, kQ8_0 && kPanels == 1 ? kOnePanel : depth_of(kQ8_0, kPanels)>(p);
}

// Quantized rows of the block's units, from unit `first` on, whose sums of gate, then of up, are in
// shared memory.
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

// Any form: eight warps for gate, eight for up, which leaves each the registers it needs.
template <int kPanels>
__global__ void __launch_bounds__(2 * kThreads) gate_up_kernel(GateUp p) {
  let_next_start();
  const int first = static_cast<int>(blockIdx.x) * (kUnitWarps / k_chunks(p.x.n_in));
  const int n_rows = p.pass->n_rows;
  gate_up_sums<kPanels, depth_of(false, kPanels)>(p, first, n_rows);
  store_gate_up(p, first, n_rows, 2 * kUnitWarps);
}

// The same warps for both.
template <int kPanels>
__global__ void __launch_bounds__(kThreads, blocks_at_once(true, kPanels))
    gate_up_q8_0_kernel(GateUp p) {
  let_next_start();
  float* sums = block_shared<float>();  // of gate, then of up
  const int chunks = k_chunks(p.x.n_in), units = kUnitWarps / chunks, warp = warp_index();
  const int n_rows = p.pass->n_rows, first = static_cast<int>(blockIdx.x) * units;
  const int unit = first + warp / chunks;
  if (unit < p.gate.n_out / kUnitOutputs) {
#pragma unroll 1
    for (int up = 0; up < 2; ++up) {
      TilesI8 w = up ? p.up : p.gate;
      let_be_q8_0(w);
      unit_chunk<kPanels, depth_of(true, kPanels)>(w, unit, chunk_of_warp(p.x.n_in), p.x, n_rows,
                                                   sums + (up * kUnitWarps + warp) * kSumsOfWarp);
    }
  }
  wait_for_previous();  // a warp without a unit has not
  __syncthreads();
  store_gate_up(p, first, n_rows, kUnitWarps);
}

void check_rows(const Pass* pass, const RowsI8& x) {
  SB_CHECK(pass != nullptr && x.n_in >= kQuantBlock && x.n_in % kQuantBlock == 0);
  SB_CHECK(aligned(x.q, 16) && aligned(x.d, 8));
}

void check_weights(const TilesI8& w, int n_in) {
  SB_CHECK(w.n_in == n_in);
  check_tiles(w);
}

bool is_q8_0(const TilesI8& w) {
  return w.type == DType::kQ8_0;
}

// Of those for Q8_0 alone and for any form, each for few rows and for all.
template <class Kernel>
Kernel kernel_for(bool q8_0, int max_rows, const Kernel (&of_q8_0)[2], const Kernel (&of_any)[2]) {
  return (q8_0 ? of_q8_0 : of_any)[max_rows > kPanelRows];
}

}  // namespace

void project(const Project& p, Stream stream) {
  check_rows(p.pass, p.x);
  const int n_units = checked_units(p, check_weights);
  const bool q8_0 = std::all_of(p.parts, p.parts + p.n_parts, is_q8_0);
  const auto kernel = kernel_for<void (*)(Project)>(
      q8_0, p.max_rows, {project_kernel<true, 1>, project_kernel<true, 2>},
      {project_kernel<false, 1>, project_kernel<false, 2>});
  launch(kernel, "project", units_shape(n_units, p.x.n_in, 1), stream, p);
}

void project_residual(const ProjectResidual& p, Stream stream) {
  check_rows(p.pass, p.x);
  check_weights(p.w, p.x.n_in);
  SB_CHECK(p.h != nullptr);
  const auto kernel = kernel_for<void (*)(ProjectResidual)>(
      is_q8_0(p.w), p.max_rows,
      {project_residual_kernel<true, 1>, project_residual_kernel<true, 2>},
      {project_residual_kernel<false, 1>, project_residual_kernel<false, 2>});
  launch(kernel, "project_residual", units_shape(units_of(p.w.n_out), p.x.n_in, 1), stream, p);
}

void gate_up(const GateUp& p, Stream stream) {
  check_rows(p.pass, p.x);
  check_weights(p.gate, p.x.n_in);
  check_weights(p.up, p.x.n_in);
  SB_CHECK(p.gate.n_out == p.out.n_in && p.up.n_out == p.out.n_in);
  check_rows(p.pass, p.out);
  const bool q8_0 = is_q8_0(p.gate) && is_q8_0(p.up);
  const auto kernel = kernel_for<void (*)(GateUp)>(q8_0, p.max_rows,
                                                   {gate_up_q8_0_kernel<1>, gate_up_q8_0_kernel<2>},
                                                   {gate_up_kernel<1>, gate_up_kernel<2>});
  LaunchShape shape = units_shape(units_of(p.gate.n_out), p.x.n_in, 2);
  if (q8_0) shape.threads = kThreads;
  launch(kernel, "gate_up", shape, stream, p);
}

}  // namespace specbound::kernels
