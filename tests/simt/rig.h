// What tests of kernels share: random floats, comparison, passes, errors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/cpu/kernels.h"
#include "layouts.h"
#include "simt/device_buffer.h"

namespace specbound::test {

inline std::vector<float> random_floats(size_t n, uint64_t seed, float scale = 1, float mean = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(mean, scale);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

// Rows [first, first + n) of x (rows, ld).
inline std::vector<float> some_rows(const std::vector<float>& x, int ld, int first, int n) {
  const auto begin = x.begin() + static_cast<ptrdiff_t>(first) * ld;
  return {begin, begin + static_cast<ptrdiff_t>(n) * ld};
}

// A GPU's NaN has bits of its own: all are made one.
inline std::vector<float> one_nan(std::vector<float> x) {
  for (float& v : x) {
    if (std::isnan(v)) v = std::numeric_limits<float>::quiet_NaN();
  }
  return x;
}

inline bool same_bits(const float* a, const float* b, size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

// Bit for bit, but a NaN is any NaN.
inline bool same_floats(float a, float b) {
  return same_bits(&a, &b, 1) || (std::isnan(a) && std::isnan(b));
}
inline bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return same_floats(x, y); });
}

// Of most kernels the position is no affair.
inline simt::DeviceBuffer<kernels::Pass> pass_of(int n_rows, int pos = 3) {
  return simt::DeviceBuffer<kernels::Pass>(std::vector<kernels::Pass>{{n_rows, pos}});
}

inline const Kernels& cpu() {
  return kernels_for(Isa::kPortable);
}

inline std::vector<Isa> two_isas() {  // the plainest and the best of this CPU: the same bits
  return {Isa::kPortable, best_isa()};
}

struct Errors {
  double rms = 0, largest = 0;
};
inline Errors errors_of(const std::vector<float>& found, const std::vector<double>& exact) {
  Errors errors;
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - exact[i]);
    errors.largest = std::max(errors.largest, error);
    errors.rms += error * error;
  }
  errors.rms = std::sqrt(errors.rms / static_cast<double>(found.size()));
  return errors;
}

}  // namespace specbound::test
