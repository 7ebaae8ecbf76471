// The INT8 matmuls of a decode pass; the product itself is matmul_int8.cuh.
#include "projections.h"

#include <algorithm>

#include "normed_row.cuh"
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
  project_units<kPanels, depth_of(kQ8_0, kPanels)>(p, p.x);
}

// Of the matrix that this warp reads, what it asks for first is on its way to L2.
template <Depth kDepth>
SPECBOUND_DEVICE void prefetch_unit(const TilesI8& w, int unit) {
  if (unit < units_of(w.n_out)) prefetch_chunk<kDepth>(w, unit, chunk_of_warp(w.n_in));
}

template <bool kQ8_0>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kQ8_0, 1))
    project_normed_kernel(ProjectNormed p) {
  let_next_start();
  for (TilesI8& part : p.parts) {
    if (kQ8_0) let_be_q8_0(part);
  }
  const int unit = unit_of_warp(p.x.n_in);
  if (unit < all_units(p)) {
    const auto part = part_of(p, unit);
    prefetch_unit<depth_of(kQ8_0, 1)>(part.w, unit - part.unit);
  }
  project_units<1, depth_of(kQ8_0, 1)>(p, norm_row<kThreads, 1>(p.pass, p.x));
}

// Its blocks are so few that it rather keeps more weights on their way.
template <bool kQ8_0, int kPanels>
__global__ void __launch_bounds__(kThreads, 2) project_residual_kernel(ProjectResidual p) {
  if (kQ8_0) let_be_q8_0(p.w);
  project_residual_units<kPanels, kQ8_0 && kPanels == 1 ? kOnePanel : depth_of(kQ8_0, kPanels)>(p);
}

// Any form: eight warps for gate, eight for up, which leaves each the registers it needs.
template <int kPanels, class GateUp, class Rows>
SPECBOUND_DEVICE void gate_up_apart(const GateUp& p, const Rows& x) {
  const int first = static_cast<int>(blockIdx.x) * (kUnitWarps / k_chunks(x.n_in));
  const int n_rows = p.pass->n_rows;
  gate_up_sums<kPanels, depth_of(false, kPanels)>(has_up() ? p.up : p.gate, x, first, n_rows);
  store_gate_up(p, first, n_rows, 2 * kUnitWarps);
}

template <int kPanels>
__global__ void __launch_bounds__(2 * kThreads) gate_up_kernel(GateUp p) {
  let_next_start();
  gate_up_apart<kPanels>(p, p.x);
}

__global__ void __launch_bounds__(2 * kThreads) gate_up_normed_kernel(GateUpNormed p) {
  let_next_start();
  prefetch_unit<depth_of(false, 1)>(has_up() ? p.up : p.gate, unit_of_warp(p.x.n_in));
  gate_up_apart<1>(p, norm_row<2 * kThreads, 2>(p.pass, p.x));
}

// Q8_0: the same warps for both.
template <int kPanels, class GateUp, class Rows>
SPECBOUND_DEVICE void gate_up_together(const GateUp& p, const Rows& x) {
  float* sums = block_shared<float>();  // of gate, then of up
  const int chunks = k_chunks(x.n_in), units = kUnitWarps / chunks, warp = warp_index();
  const int n_rows = p.pass->n_rows, first = static_cast<int>(blockIdx.x) * units;
  const int unit = first + warp / chunks;
  if (unit < p.gate.n_out / kUnitOutputs) {
#pragma unroll 1
    for (int up = 0; up < 2; ++up) {
      TilesI8 w = up ? p.up : p.gate;
      let_be_q8_0(w);
      const Chunk chunk = chunk_of_warp(anew(x.n_in));
      unit_chunk<kPanels, depth_of(true, kPanels)>(w, unit, chunk, x, n_rows,
                                                   sums + (up * kUnitWarps + warp) * kSumsOfWarp);
    }
  }
  wait_for_previous();  // a warp without a unit has not
  __syncthreads();
  store_gate_up(p, first, n_rows, kUnitWarps);
}

template <int kPanels>
__global__ void __launch_bounds__(kThreads, blocks_at_once(true, kPanels))
    gate_up_q8_0_kernel(GateUp p) {
  let_next_start();
  gate_up_together<kPanels>(p, p.x);
}

__global__ void __launch_bounds__(kThreads, blocks_at_once(true, 1))
    gate_up_normed_q8_0_kernel(GateUpNormed p) {
  let_next_start();
  let_be_q8_0(p.gate);
  prefetch_unit<depth_of(true, 1)>(p.gate, unit_of_warp(p.x.n_in));
  gate_up_together<1>(p, norm_row<kThreads, 2>(p.pass, p.x));
}

bool is_q8_0(const TilesI8& w) {
  return w.type == DType::kQ8_0;
}

// Of those for Q8_0 alone and for any form, each for few rows and for all.
template <class Kernel>
Kernel kernel_for(bool q8_0, int max_rows, const Kernel (&of_q8_0)[2], const Kernel (&of_any)[2]) {
  return (q8_0 ? of_q8_0 : of_any)[max_rows > kPanelRows];
}

// Blocks that each norm the row: four times as many as a large card has multiprocessors. With more
// a multiprocessor norms it again and again, which it spends longer on than a kernel apart takes
// (2.9 us of 4096 numbers on an H200). Counted; no GPU has measured it.
constexpr unsigned kMostNorming = 512;

void check_normed(const Pass* pass, const NormedRow& x) {
  SB_CHECK(pass != nullptr && aligned(x.h, 16) && aligned(x.weight, 16));
  SB_CHECK(x.n_in >= kQuantBlock && x.n_in % kQuantBlock == 0 && x.n_in <= kWidestNormed);
}

LaunchShape with_normed(LaunchShape shape, const NormedRow& x) {
  shape.shared_bytes += normed_bytes(x.n_in);
  return shape;
}

template <class GateUp>
void check_gate_up(const GateUp& p) {
  SB_CHECK(p.pass != nullptr);
  check_weights(p.gate, p.x.n_in);
  check_weights(p.up, p.x.n_in);
  SB_CHECK(p.gate.n_out == p.out.n_in && p.up.n_out == p.out.n_in);
  check_rows(p.out);
}

template <class GateUp>
bool of_q8_0(const GateUp& p) {
  return is_q8_0(p.gate) && is_q8_0(p.up);
}

template <class GateUp>
LaunchShape gate_up_shape(const GateUp& p) {
  LaunchShape shape = units_shape(units_of(p.gate.n_out), p.x.n_in, 2);
  if (of_q8_0(p)) shape.threads = kThreads;
  return shape;
}

}  // namespace

bool better_normed(int n_out, int n_in) {
  return n_in <= kWidestNormed && units_shape(units_of(n_out), n_in, 1).blocks.x <= kMostNorming;
}

void project(const Project& p, Stream stream) {
  SB_CHECK(p.pass != nullptr);
  check_rows(p.x);
  const int n_units = checked_units(p, check_weights);
  const bool q8_0 = std::all_of(p.parts, p.parts + p.n_parts, is_q8_0);
  const auto kernel = kernel_for<void (*)(Project)>(
      q8_0, p.max_rows, {project_kernel<true, 1>, project_kernel<true, 2>},
      {project_kernel<false, 1>, project_kernel<false, 2>});
  launch(kernel, "project", units_shape(n_units, p.x.n_in, 1, p.overlaps), stream, p);
}

void project_normed(const ProjectNormed& p, Stream stream) {
  check_normed(p.pass, p.x);
  const int n_units = checked_units(p, check_weights);
  const bool q8_0 = std::all_of(p.parts, p.parts + p.n_parts, is_q8_0);
  launch(q8_0 ? project_normed_kernel<true> : project_normed_kernel<false>, "project_normed",
         with_normed(units_shape(n_units, p.x.n_in, 1, p.overlaps), p.x), stream, p);
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
  check_rows(p.x);
  check_gate_up(p);
  const bool q8_0 = of_q8_0(p);
  const auto kernel = kernel_for<void (*)(GateUp)>(q8_0, p.max_rows,
                                                   {gate_up_q8_0_kernel<1>, gate_up_q8_0_kernel<2>},
                                                   {gate_up_kernel<1>, gate_up_kernel<2>});
  launch(kernel, "gate_up", gate_up_shape(p), stream, p);
}

void gate_up_normed(const GateUpNormed& p, Stream stream) {
  check_normed(p.pass, p.x);
  check_gate_up(p);
  launch(of_q8_0(p) ? gate_up_normed_q8_0_kernel : gate_up_normed_kernel, "gate_up_normed",
         with_normed(gate_up_shape(p), p.x), stream, p);
}

}  // namespace specbound::kernels
