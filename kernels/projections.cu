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

__global__ void __launch_bounds__(kThreads, 2) project_kernel(Project p) {
  project_units(p);
}

__global__ void __launch_bounds__(kThreads, 2) project_q8_0_kernel(Project p) {
  for (TilesI8& part : p.parts) let_be_q8_0(part);
  project_units(p);
}

__global__ void __launch_bounds__(kThreads, 2) project_residual_kernel(ProjectResidual p) {
  project_residual_units(p);
}

__global__ void __launch_bounds__(kThreads, 2) project_residual_q8_0_kernel(ProjectResidual p) {
  let_be_q8_0(p.w);
  project_residual_units(p);
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
__global__ void __launch_bounds__(2 * kThreads) gate_up_kernel(GateUp p) {
  const int first = static_cast<int>(blockIdx.x) * (kUnitWarps / k_chunks(p.x.n_in));
  const int n_rows = p.pass->n_rows;
  gate_up_sums(p, first, n_rows);
  store_gate_up(p, first, n_rows, 2 * kUnitWarps);
}

// The same warps for both.
__global__ void __launch_bounds__(kThreads, 2) gate_up_q8_0_kernel(GateUp p) {
  float* sums = block_shared<float>();  // of gate, then of up
  const int chunks = k_chunks(p.x.n_in), units = kUnitWarps / chunks, warp = warp_index();
  const int n_rows = p.pass->n_rows, first = static_cast<int>(blockIdx.x) * units;
  const Chunk chunk = chunk_of_warp(p.x.n_in);
  if (first + warp / chunks < p.gate.n_out / kUnitOutputs) {
#pragma unroll 1
    for (int up = 0; up < 2; ++up) {
      TilesI8 w = up ? p.up : p.gate;
      let_be_q8_0(w);
      unit_chunk(w, first + warp / chunks, chunk, p.x, n_rows,
                 sums + (up * kUnitWarps + warp) * kSumsOfWarp);
    }
  }
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

}  // namespace

void project(const Project& p, Stream stream) {
  check_rows(p.pass, p.x);
  const int n_units = checked_units(p, check_weights);
  const bool q8_0 = std::all_of(p.parts, p.parts + p.n_parts, is_q8_0);
  launch(q8_0 ? project_q8_0_kernel : project_kernel, "project", units_shape(n_units, p.x.n_in, 1),
         stream, p);
}

void project_residual(const ProjectResidual& p, Stream stream) {
  check_rows(p.pass, p.x);
  check_weights(p.w, p.x.n_in);
  SB_CHECK(p.h != nullptr);
  launch(is_q8_0(p.w) ? project_residual_q8_0_kernel : project_residual_kernel, "project_residual",
         units_shape(units_of(p.w.n_out), p.x.n_in, 1), stream, p);
}

void gate_up(const GateUp& p, Stream stream) {
  check_rows(p.pass, p.x);
  check_weights(p.gate, p.x.n_in);
  check_weights(p.up, p.x.n_in);
  SB_CHECK(p.gate.n_out == p.out.n_in && p.up.n_out == p.out.n_in);
  check_rows(p.pass, p.out);
  const bool q8_0 = is_q8_0(p.gate) && is_q8_0(p.up);
  LaunchShape shape = units_shape(units_of(p.gate.n_out), p.x.n_in, 2);
  if (q8_0) shape.threads = kThreads;
  launch(q8_0 ? gate_up_q8_0_kernel : gate_up_kernel, "gate_up", shape, stream, p);
}

}  // namespace specbound::kernels
