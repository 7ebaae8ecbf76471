// The FP16 matmuls of a decode pass (the product is matmul_f16.cuh), and making rows for them.
#include "projections_f16.h"

#include "float_formula.cuh"
#include "matmul_f16.cuh"
#include "projections.cuh"
#include "quantize.cuh"
#include "row_norm.cuh"
#include "row_scale.cuh"

namespace specbound::kernels {
namespace {

// What the compiler is told of the matmuls' blocks; launchers take kUnitWarps a matrix. One matrix:
// more than the truth, for at most 80 registers without spills, three blocks a multiprocessor; told
// the truth, it takes 90.
[[maybe_unused]] constexpr int kBoundThreads = 384;
[[maybe_unused]] constexpr int kPairThreads = 2 * kUnitWarps * kWarp;

// Row `row` of out = value(k), k < n. A block makes a row; `value` is asked twice.
template <class Value>
SPECBOUND_DEVICE void write_row(int row, int n, const RowsF16& out, size_t shared, Value value) {
  const int thread = static_cast<int>(threadIdx.x);
  uint32_t largest = 0;
  for (int k = thread; k < n; k += kRowThreads) {
    const uint32_t magnitude = magnitude_bits(value(k));
    largest = largest > magnitude ? largest : magnitude;
  }
  const RowScale scale = row_scale(block_largest(largest, block_shared<uint32_t>(shared)));
  const int panel = row / kPanelRows, r = row % kPanelRows, n_blocks = out.n_in / kHalfBlock;
  if (thread == 0) out.scale[row] = scale.scale;
  // Four k a thread: their nearest numbers, then what is left.
  for (int k = 4 * thread; k < out.n_in; k += 4 * kRowThreads) {
    uint16_t parts[2][4] = {};
    for (int i = 0; i < 4; ++i) {
      if (k + i >= n || scale.inverse == 0.0f) continue;
      const float x = value(k + i) * scale.inverse;
      parts[0][i] = half_bits(x);
      parts[1][i] = half_bits(x - half_float(parts[0][i]));
    }
    const auto pair = [](uint16_t low, uint16_t high) { return low | uint32_t{high} << 16; };
    const size_t block = (static_cast<size_t>(panel) * n_blocks + k / kHalfBlock) * kPanelRows + r;
    reinterpret_cast<Word4*>(out.x)[4 * block + k % kHalfBlock / 4] = {
        pair(parts[0][0], parts[0][1]), pair(parts[0][2], parts[0][3]),
        pair(parts[1][0], parts[1][1]), pair(parts[1][2], parts[1][3])};
  }
}

// A row past the last is one of zeros, if its panel has others.
SPECBOUND_DEVICE bool in_panels(int row, int n_rows) {
  return row / kPanelRows < panels_of(n_rows);
}

__global__ void __launch_bounds__(kRowThreads) norm_f16_kernel(NormF16 p) {
  let_next_start();
  const int row = static_cast<int>(blockIdx.x);
  const HiddenRows rows = hidden_rows(p.pass, p.max_rows, p.last_row);
  if (!in_panels(row, rows.n)) return;
  if (threadIdx.x == 0) prefetch(p.weight, p.dim * static_cast<int>(sizeof(float)));
  wait_for_previous();
  const bool exists = row < rows.n;
  const float* h = p.h + static_cast<size_t>(rows.first + row) * p.dim;
  const float scale = exists ? inverse_rms(h, p.dim, p.eps) : 0.0f;
  write_row(row, exists ? p.dim : 0, p.out, kNormBytes,
            [&](int k) { return (h[k] * scale) * p.weight[k]; });
}

__global__ void __launch_bounds__(kRowThreads) scale_rows_f16_kernel(ScaleRowsF16 p) {
  const int row = static_cast<int>(blockIdx.x);
  const int n_rows = hidden_rows(p.pass, p.max_rows, false).n;
  if (!in_panels(row, n_rows)) return;
  const float* x = p.x + static_cast<size_t>(row) * p.ld;
  write_row(row, row < n_rows ? p.n : 0, p.out, 0, [&](int k) { return x[k]; });
}

__global__ void __launch_bounds__(kBoundThreads) project_f16_kernel(ProjectF16 p) {
  project_units<2, Depth{}>(p, p.x);
}

__global__ void __launch_bounds__(kBoundThreads) project_residual_f16_kernel(ProjectResidualF16 p) {
  project_residual_units<2, Depth{}>(p);
}

__global__ void __launch_bounds__(kPairThreads, 1) gate_up_f16_kernel(GateUpF16 p) {
  let_next_start();
  const int chunks = k_chunks(p.x.n_in), units = kUnitWarps / chunks;
  const int n_rows = p.pass->n_rows, first = static_cast<int>(blockIdx.x) * units;
  gate_up_sums<2, Depth{}>(has_up() ? p.up : p.gate, p.x, first, n_rows);
  const float *gate_sums = block_shared<float>(), *up_sums = block_shared<float>(kSumBytes);
#pragma unroll 1
  for (int i = warp_index(); i < units * n_rows; i += 2 * kUnitWarps) {
    const int row = i % n_rows, output = (first + i / n_rows) * kUnitOutputs + lane_index();
    if (output >= p.gate.n_out) continue;
    const int at = (i / n_rows) * chunks * kSumsOfWarp;
    const float gate = total_of(gate_sums + at, chunks, row, lane_index());
    p.act[static_cast<size_t>(row) * p.ld + output] =
        activated(p.activation, gate) * total_of(up_sums + at, chunks, row, lane_index());
  }
}

void check_rows(const Pass* pass, const RowsF16& x) {
  SB_CHECK(pass != nullptr && x.n_in >= kQuantBlock && x.n_in % kQuantBlock == 0);
  SB_CHECK(aligned(x.x, 16) && aligned(x.scale, 4));
}

int padded(int n) {
  return (n + kQuantBlock - 1) / kQuantBlock * kQuantBlock;
}

void check_weights(const TilesF16& w, int n_in) {
  SB_CHECK(w.n_in >= 1 && padded(w.n_in) == n_in && w.n_out >= 1 && aligned(w.w, 16));
}

LaunchShape row_shape(int max_rows, size_t shared_bytes) {
  SB_CHECK(max_rows >= 1 && max_rows <= kMaxPrefillRows);
  return {{static_cast<unsigned>(panels_of(max_rows) * kPanelRows)}, kRowThreads, shared_bytes};
}

constexpr size_t kLargestBytes = kRowThreads / kWarp * sizeof(uint32_t);

}  // namespace

void norm_f16(const NormF16& p, Stream stream) {
  check_rows(p.pass, p.out);
  SB_CHECK(p.dim >= 4 && p.dim % 4 == 0 && p.out.n_in == padded(p.dim));
  SB_CHECK(aligned(p.h, 16) && aligned(p.weight, 4) && (!p.last_row || p.max_rows == 1));
  LaunchShape shape = row_shape(p.max_rows, kNormBytes + kLargestBytes);
  shape.overlaps = p.overlaps;
  launch(norm_f16_kernel, "norm_f16", shape, stream, p);
}

void scale_rows_f16(const ScaleRowsF16& p, Stream stream) {
  check_rows(p.pass, p.out);
  SB_CHECK(aligned(p.x, 4) && p.n >= 1 && p.ld >= p.n && p.out.n_in == padded(p.n));
  launch(scale_rows_f16_kernel, "scale_rows_f16", row_shape(p.max_rows, kLargestBytes), stream, p);
}

void project_f16(const ProjectF16& p, Stream stream) {
  check_rows(p.pass, p.x);
  const int n_units = checked_units(p, check_weights);
  launch(project_f16_kernel, "project_f16", units_shape(n_units, p.x.n_in, 1), stream, p);
}

void project_residual_f16(const ProjectResidualF16& p, Stream stream) {
  check_rows(p.pass, p.x);
  check_weights(p.w, p.x.n_in);
  SB_CHECK(p.h != nullptr);
  launch(project_residual_f16_kernel, "project_residual_f16",
         units_shape(units_of(p.w.n_out), p.x.n_in, 1), stream, p);
}

void gate_up_f16(const GateUpF16& p, Stream stream) {
  check_rows(p.pass, p.x);
  check_weights(p.gate, p.x.n_in);
  check_weights(p.up, p.x.n_in);
  SB_CHECK(p.gate.n_out == p.up.n_out && p.act != nullptr && p.ld >= p.gate.n_out);
  launch(gate_up_f16_kernel, "gate_up_f16", units_shape(units_of(p.gate.n_out), p.x.n_in, 2),
         stream, p);
}

}  // namespace specbound::kernels
