// What matmul kernels are tested on: random matrices and rows on the device, and the CPU backend's
// results for the same.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cuda/fragments.h"
#include "layouts.h"
#include "model/dtype.h"
#include "model/half.h"
#include "simt/device_buffer.h"

namespace specbound::test::matmul {

inline std::vector<float> random_floats(size_t n, uint64_t seed, float scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

inline const Kernels& cpu() {
  return kernels_for(Isa::kPortable);
}

inline int padded(int n) {
  return round_up(n, kQuantBlock);
}

// Bit for bit, but a NaN is any NaN.
inline bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return false;
  }
  return true;
}

// Rows [first, first + n) of x (rows, ld).
inline std::vector<float> some_rows(const std::vector<float>& x, int ld, int first, int n) {
  const auto begin = x.begin() + static_cast<ptrdiff_t>(first) * ld;
  return {begin, begin + static_cast<ptrdiff_t>(n) * ld};
}

// ---- INT8 ----

class Int8Weights {
 public:
  Int8Weights(int n_out, int n_in, uint64_t seed)
      : n_out(n_out),
        n_in(n_in),
        blocks(static_cast<size_t>(n_out) * n_in / kQuantBlock),
        q_(int8_fragments(matrix_of(blocks)).bytes_of(kernels::tiles_of(n_out))),
        d_(int8_fragments(matrix_of(blocks)).scales_of(kernels::tiles_of(n_out))) {
    std::mt19937_64 random(seed);
    for (BlockQ8_0& block : blocks) {
      block.d = float_to_half(0.001f * static_cast<float>(1 + random() % 1000) / 1000);
      for (int8_t& q : block.q) q = static_cast<int8_t>(random());  // -128 too
    }
    std::vector<int8_t> q(q_.size());
    std::vector<uint16_t> d(d_.size());
    repack_int8(matrix_of(blocks), 0, kernels::tiles_of(n_out), q.data(), d.data());
    q_.write(q);
    d_.write(d);
  }

  kernels::TilesI8 tiles() const { return {n_out, n_in, q_.data(), d_.data()}; }

  // y (rows, n_out), which `accumulate` adds to.
  void times(const QuantRows& x, std::vector<float>& y, bool accumulate = false) const {
    cpu().matmul_q8_0(matrix_of(blocks), 0, n_out, x, y.data(), n_out, accumulate);
  }

  const int n_out, n_in;

 private:
  Matrix matrix_of(const std::vector<BlockQ8_0>& of) const {
    return {DType::kQ8_0, n_out, n_in, reinterpret_cast<const std::byte*>(of.data())};
  }

  std::vector<BlockQ8_0> blocks;
  simt::DeviceBuffer<int8_t> q_;
  simt::DeviceBuffer<uint16_t> d_;
};

// Rows x (n, n_in) quantized by the CPU; whole panels, so that their layout is that of RowsI8.
class Int8Rows {
 public:
  Int8Rows(const std::vector<float>& x, int n_in)
      : n_rows(static_cast<int>(x.size()) / n_in),
        n_in(n_in),
        q(static_cast<size_t>(kernels::panels_of(n_rows)) * 8 * n_in),
        d(q.size() / kQuantBlock),
        bias_(d.size()),
        q_(q.size()),
        d_(d.size()) {
    const std::vector<float> zeros(n_in);
    for (int r = 0; r < kernels::panels_of(n_rows) * 8; ++r) {
      const float* row = r < n_rows ? &x[static_cast<size_t>(r) * n_in] : zeros.data();
      QuantRows all = rows();
      all.n_rows = kernels::panels_of(n_rows) * 8;
      cpu().quantize(row, r, 0, n_in / kQuantBlock, all);
    }
    q_.write(q);
    d_.write(d);
  }

  kernels::RowsI8 on_device() const { return {n_in, q_.data(), d_.data()}; }

  // y (n_rows, n_out) by the CPU, row by row.
  std::vector<float> times(const Int8Weights& w, const std::vector<float>* add_to = nullptr) {
    std::vector<float> y = add_to ? *add_to : std::vector<float>(size_t(n_rows) * w.n_out);
    std::vector<float> whole(size_t(kernels::panels_of(n_rows)) * 8 * w.n_out);
    std::copy(y.begin(), y.end(), whole.begin());
    QuantRows all = rows();
    all.n_rows = kernels::panels_of(n_rows) * 8;
    w.times(all, whole, add_to != nullptr);
    whole.resize(y.size());
    return whole;
  }

  const int n_rows, n_in;
  std::vector<int8_t> q;
  std::vector<float> d;

 private:
  QuantRows rows() { return {n_rows, n_in, q.data(), d.data(), bias_.data()}; }

  std::vector<int32_t> bias_;
  simt::DeviceBuffer<int8_t> q_;
  simt::DeviceBuffer<float> d_;
};

// ---- FP16 ----

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

struct Errors {
  double largest = 0, mean_square = 0;
};
inline Errors errors_of(const std::vector<float>& y, const std::vector<double>& exact) {
  Errors errors;
  for (size_t i = 0; i < y.size(); ++i) {
    const double error = std::abs(y[i] - exact[i]);
    errors.largest = std::max(errors.largest, error);
    errors.mean_square += error * error / static_cast<double>(y.size());
  }
  return errors;
}

}  // namespace specbound::test::matmul
