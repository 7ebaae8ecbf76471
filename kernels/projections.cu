// The INT8 matmuls of a decode pass; the product itself is matmul_int8.cuh.
#include "projections.h"

#include <algorithm>

#include "projections_int8.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = kUnitThreads;

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

// Any form: eight warps for gate, eight for up, which leaves each the registers it needs.
template <int kPanels>
__global__ void __launch_bounds__(2 * kThreads) gate_up_kernel(GateUp p) {
  let_next_start();
  const int first = static_cast<int>(blockIdx.x) * (kUnitWarps / k_chunks(p.x.n_in));
  const int n_rows = p.pass->n_rows;
  gate_up_sums<kPanels, depth_of(false, kPanels)>(has_up() ? p.up : p.gate, p.x, first, n_rows);
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
  SB_CHECK(p.pass != nullptr);
  check_rows(p.x);
  const int n_units = checked_units(p, check_weights);
  const bool q8_0 = std::all_of(p.parts, p.parts + p.n_parts, is_q8_0);
  const auto kernel = kernel_for<void (*)(Project)>(
      q8_0, p.max_rows, {project_kernel<true, 1>, project_kernel<true, 2>},
      {project_kernel<false, 1>, project_kernel<false, 2>});
  launch(kernel, "project", units_shape(n_units, p.x.n_in, 1), stream, p);
}

void project_residual(const ProjectResidual& p, Stream stream) {
  SB_CHECK(p.pass != nullptr);
  check_rows(p.x);
  check_weights(p.w, p.x.n_in);
  SB_CHECK(p.h != nullptr);
  const auto kernel = kernel_for<void (*)(ProjectResidual)>(
      is_q8_0(p.w), p.max_rows,
      {project_residual_kernel<true, 1>, project_residual_kernel<true, 2>},
      {project_residual_kernel<false, 1>, project_residual_kernel<false, 2>});
  launch(kernel, "project_residual", units_shape(units_of(p.w.n_out), p.x.n_in, 1), stream, p);
}

void gate_up(const GateUp& p, Stream stream) {
  SB_CHECK(p.pass != nullptr);
  check_rows(p.x);
  check_weights(p.gate, p.x.n_in);
  check_weights(p.up, p.x.n_in);
  SB_CHECK(p.gate.n_out == p.out.n_in && p.up.n_out == p.out.n_in);
  check_rows(p.out);
  const bool q8_0 = is_q8_0(p.gate) && is_q8_0(p.up);
  const auto kernel = kernel_for<void (*)(GateUp)>(q8_0, p.max_rows,
                                                   {gate_up_q8_0_kernel<1>, gate_up_q8_0_kernel<2>},
                                                   {gate_up_kernel<1>, gate_up_kernel<2>});
  LaunchShape shape = units_shape(units_of(p.gate.n_out), p.x.n_in, 2);
  if (q8_0) shape.threads = kThreads;
  launch(kernel, "gate_up", shape, stream, p);
}

}  // namespace specbound::kernels
