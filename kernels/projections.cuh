// What follows the product in a decode pass's matmuls, whatever the weights: `unit_chunk` of
// matmul_int8.cuh or matmul_f16.cuh makes the sums.
#pragma once

#include "matmul_int8.cuh"

namespace specbound::kernels {

// One of the matrices of a Project, its first unit and output in the row of all.
template <class Tiles>
struct Part {
  Tiles w;
  int unit, output;
};
template <class Tiles>
SPECBOUND_DEVICE Part<Tiles> first_part(const Tiles& w) {
  return {w, 0, 0};
}

// Where unit `unit` of all parts together belongs.
template <class Project>
SPECBOUND_DEVICE auto part_of(const Project& p, int unit) {
  auto part = first_part(p.parts[0]);
#pragma unroll
  for (int i = 1; i < Project::kMaxParts; ++i) {
    if (i < p.n_parts && unit - part.unit >= units_of(part.w.n_out)) {
      part = {p.parts[i], part.unit + units_of(part.w.n_out), part.output + part.w.n_out};
    }
  }
  return part;
}

template <class Project>
SPECBOUND_DEVICE int all_units(const Project& p) {
  int units = 0;
#pragma unroll
  for (int i = 0; i < Project::kMaxParts; ++i) {
    units += i < p.n_parts ? units_of(p.parts[i].n_out) : 0;
  }
  return units;
}

// y = the parts' outputs for x, side by side.
template <int kPanels, Depth kDepth, class Project, class Rows>
SPECBOUND_DEVICE void project_units(const Project& p, const Rows& x) {
  let_next_start();
  float* sums = block_shared<float>();
  const int chunks = k_chunks(x.n_in), units = kUnitWarps / chunks, warp = warp_index();
  const int n_rows = p.pass->n_rows, first = static_cast<int>(blockIdx.x) * units;
  const int n_units = all_units(p);
  if (first + warp / chunks < n_units) {
    const auto part = part_of(p, first + warp / chunks);
    unit_chunk<kPanels, kDepth>(part.w, first + warp / chunks - part.unit, chunk_of_warp(x.n_in), x,
                                n_rows, sums + warp * kSumsOfWarp);
  }
  wait_for_previous();  // a warp without a unit has not
  __syncthreads();
  // A warp has 32 outputs of a row.
#pragma unroll 1
  for (int i = warp; i < units * n_rows; i += kUnitWarps) {
    const int row = i % n_rows, unit = first + i / n_rows;
    if (unit >= n_units) return;
    const auto part = part_of(p, unit);
    const int output = (unit - part.unit) * kUnitOutputs + lane_index();
    if (output >= part.w.n_out) continue;
    p.y[static_cast<size_t>(row) * p.ld + part.output + output] =
        total_of(sums + (i / n_rows) * chunks * kSumsOfWarp, chunks, row, lane_index());
  }
}

// h += W x, then h += bias.
template <int kPanels, Depth kDepth, class ProjectResidual>
SPECBOUND_DEVICE void project_residual_units(const ProjectResidual& p) {
  let_next_start();
  float* sums = block_shared<float>();
  const int chunks = k_chunks(p.x.n_in), units = kUnitWarps / chunks, warp = warp_index();
  const int n_rows = p.pass->n_rows, first = static_cast<int>(blockIdx.x) * units;
  if (first + warp / chunks < units_of(p.w.n_out)) {
    unit_chunk<kPanels, kDepth>(p.w, first + warp / chunks, chunk_of_warp(p.x.n_in), p.x, n_rows,
                                sums + warp * kSumsOfWarp);
  }
  wait_for_previous();  // a warp without a unit has not
  __syncthreads();
#pragma unroll 1
  for (int i = warp; i < units * n_rows; i += kUnitWarps) {
    const int row = i % n_rows, output = (first + i / n_rows) * kUnitOutputs + lane_index();
    if (output >= p.w.n_out) continue;
    float& h = p.h[static_cast<size_t>(p.pass->slot + row) * p.w.n_out + output];
    const float sum =
        h + total_of(sums + (i / n_rows) * chunks * kSumsOfWarp, chunks, row, lane_index());
    h = p.bias ? sum + p.bias[output] : sum;
  }
}

// Eight warps have the units of gate, eight those of up: whether this one has up's.
SPECBOUND_DEVICE bool has_up() {
  return warp_index() >= kUnitWarps;
}

// The sums of gate and up for the block's units, in shared memory one after the other; `w` is this
// warp's matrix. Ends with a barrier.
template <int kPanels, Depth kDepth, class Tiles, class Rows>
SPECBOUND_DEVICE void gate_up_sums(Tiles w, const Rows& x, int first, int n_rows) {
  const int chunks = k_chunks(x.n_in), warp = warp_index() % kUnitWarps;
  const int unit = first + warp / chunks;
  if (unit < units_of(w.n_out)) {
    unit_chunk<kPanels, kDepth>(w, unit, chunk_of_warp(x.n_in), x, n_rows,
                                block_shared<float>(has_up() ? kSumBytes : 0) + warp * kSumsOfWarp);
  }
  wait_for_previous();
  __syncthreads();
}

// Of all parts, which must be in order: check_weights(part, n_in) for each.
template <class Project, class CheckWeights>
int checked_units(const Project& p, CheckWeights check_weights) {
  SB_CHECK(p.n_parts >= 1 && p.n_parts <= Project::kMaxParts && p.y != nullptr);
  int n_units = 0, n_out = 0;
  for (int i = 0; i < p.n_parts; ++i) {
    check_weights(p.parts[i], p.x.n_in);
    n_units += units_of(p.parts[i].n_out);
    n_out += p.parts[i].n_out;
  }
  SB_CHECK(p.ld >= n_out);
  return n_units;
}

inline LaunchShape units_shape(int n_units, int n_in, int matrices, bool overlaps = true) {
  const int per_block = kUnitWarps / k_chunks(n_in);
  return {{static_cast<unsigned>((n_units + per_block - 1) / per_block)},
          matrices * kUnitWarps * kWarp,
          static_cast<size_t>(matrices) * kSumBytes,
          overlaps};
}

}  // namespace specbound::kernels
