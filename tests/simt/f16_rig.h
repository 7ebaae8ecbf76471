// What FP16 matmul kernels are tested on: random matrices and rows on the device, and the CPU
// backend's results for the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cuda/weight_layout.h"
#include "layouts.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "projections_f16.h"
#include "simt/rig.h"

namespace specbound::test {

inline int padded(int n) {
  return round_up(n, kQuantBlock);
}

class HalfWeights {
 public:
  HalfWeights(int n_out, int n_in, uint64_t seed)
      : n_out(n_out),
        n_in(n_in),
        halves(static_cast<size_t>(n_out) * n_in),
        w_(half_fragments(matrix()).bytes_of(kernels::tiles_of(n_out)) / sizeof(uint16_t)) {
    const std::vector<float> w = random_floats(halves.size(), seed, 0.05f);
    for (size_t i = 0; i < w.size(); ++i) halves[i] = float_to_half(w[i]);
    std::vector<uint16_t> tiles(w_.size());
    repack_half(matrix(), 0, kernels::tiles_of(n_out), tiles.data());
    w_.write(tiles);
  }

  kernels::TilesF16 tiles() const { return {n_out, n_in, w_.data()}; }

  // y (rows, n_out) of x (rows, n_in) by the CPU, and exactly.
  std::vector<float> times(const std::vector<float>& x) const {
    const int n_rows = static_cast<int>(x.size()) / n_in, ld = padded(n_in);
    std::vector<float> wide(static_cast<size_t>(n_rows) * ld),
        y(static_cast<size_t>(n_rows) * n_out);
    for (int r = 0; r < n_rows; ++r) std::copy_n(&x[size_t(r) * n_in], n_in, &wide[size_t(r) * ld]);
    cpu().matmul_float(matrix(), 0, n_out, wide.data(), ld, n_rows, y.data(), n_out, false);
    return y;
  }
  std::vector<double> exactly(const std::vector<float>& x) const {
    const int n_rows = static_cast<int>(x.size()) / n_in;
    std::vector<double> y;
    for (int r = 0; r < n_rows; ++r) {
      for (int o = 0; o < n_out; ++o) {
        double sum = 0;
        for (int k = 0; k < n_in; ++k) {
          sum += double{half_to_float(halves[size_t(o) * n_in + k])} * x[size_t(r) * n_in + k];
        }
        y.push_back(sum);
      }
    }
    return y;
  }

  const int n_out, n_in;

 private:
  Matrix matrix() const {
    return {DType::kF16, n_out, n_in, reinterpret_cast<const std::byte*>(halves.data())};
  }

  std::vector<uint16_t> halves;
  simt::DeviceBuffer<uint16_t> w_;
};

// Memory for rows in two FP16 parts.
struct HalfRows {
  HalfRows(int n_rows, int n_in)
      : n_in(padded(n_in)),
        x(static_cast<size_t>(kernels::panels_of(n_rows)) * 8 * padded(n_in) * 2),
        scale(static_cast<size_t>(kernels::panels_of(n_rows)) * 8) {}

  kernels::RowsF16 on_device() const { return {n_in, x.data(), scale.data()}; }

  const int n_in;
  simt::DeviceBuffer<uint16_t> x;
  simt::DeviceBuffer<float> scale;
};

// x (n_rows, n_in) as kernels scale it.
inline HalfRows scaled(const std::vector<float>& x, int n_in, int max_rows) {
  const int n_rows = static_cast<int>(x.size()) / n_in;
  HalfRows rows(n_rows, n_in);
  const simt::DeviceBuffer<kernels::Pass> pass = pass_of(n_rows);
  const simt::DeviceBuffer<float> from(x);
  kernels::scale_rows_f16({pass.data(), from.data(), n_in, n_in, rows.on_device(), max_rows},
                          simt::stream());
  simt::synchronize();
  rows.x.from_kernel();
  rows.scale.from_kernel();
  return rows;
}

}  // namespace specbound::test
