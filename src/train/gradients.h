// What forward and backward passes of heads are made of.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "numerics/splitmix64.h"
#include "train/blocks.h"
#include "train/gemm.h"

namespace specbound {

// Vectors only grow: a batch is about as large as the one before.
inline void fit(std::vector<float>& values, size_t n) {
  if (values.size() < n) values.resize(n);
}

// c (m, n) += a^T b over `rows` rows of a (rows, m) and b (rows, n).
inline void add_outer(const Gemm& gemm, int rows, int m, int n, const float* a, const float* b,
                      std::vector<float>& c) {
  gemm.multiply(Op::kTransposed, Op::kPlain, m, n, rows, 1.0f, a, m, b, n, 1.0f, c.data(), n);
}

inline float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

// work(i) for each of n values.
template <typename Work>
void for_values(const Gemm& gemm, size_t n, const Work& work) {
  for_blocks(gemm.pool(), static_cast<int64_t>(n), 1 << 13, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(static_cast<size_t>(i));
  });
}

// work(r) for each of n rows.
template <typename Work>
void for_rows(const Gemm& gemm, int n, const Work& work) {
  for_blocks(gemm.pool(), n, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) work(static_cast<int>(r));
  });
}

// Uniform in -most..most.
inline void fill_uniform(uint64_t seed, float most, std::vector<float>& values) {
  for (float& value : values) {
    value = most * (static_cast<float>(splitmix64(seed) >> 40) * 0x1p-23f - 1.0f);
  }
}

inline float dot(int n, const float* a, const float* b) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// b += factor a
inline void add_scaled(int n, float factor, const float* a, float* b) {
  for (int i = 0; i < n; ++i) b[i] += factor * a[i];
}

// d silu(x) / dx
inline float silu_slope(float x) {
  const float s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

}  // namespace specbound
