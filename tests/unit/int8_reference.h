// int8_formula.h once more, as plainly as it can be said: what tests hold products to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/conversion.h"
#include "model/weights.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "numerics/int8_formula.h"

namespace specbound::test {

struct RowBlock {
  float dx = 0;
  int q[32] = {};
};

inline RowBlock quantize_plainly(const float* x) {
  RowBlock out;
  float amax = 0;
  for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[i]));
  if (amax < kQuantFloor) return out;
  out.dx = amax / 127.0f;
  const float inverse = 127.0f / amax;
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int>(std::nearbyint(x[i] * inverse));
  return out;
}

struct WeightBlock {
  int w[32];
  float dw, mw;
  bool has_min;
};

// Block b of 32 numbers of a row.
inline WeightBlock weight_block(const Matrix& m, int row, int b) {
  WeightBlock out{};
  const size_t n_blocks = m.n_in / 32, at = row * n_blocks + b;
  if (m.type == DType::kQ8_0) {
    const auto& block = reinterpret_cast<const BlockQ8_0*>(m.data)[at];
    out.dw = half_to_float(block.d);
    for (int i = 0; i < 32; ++i) out.w[i] = block.q[i];
  } else if (m.type == DType::kQ4_0) {
    const auto& block = reinterpret_cast<const BlockQ4_0*>(m.data)[at];
    out.dw = half_to_float(block.d);
    for (int i = 0; i < 16; ++i) {
      out.w[i] = block.q[i] % 16 - 8;
      out.w[i + 16] = block.q[i] / 16 - 8;
    }
  } else if (m.type == DType::kQ4_1) {
    const auto& block = reinterpret_cast<const BlockQ4_1*>(m.data)[at];
    out.dw = half_to_float(block.d);
    out.mw = -half_to_float(block.m);
    out.has_min = true;
    for (int i = 0; i < 16; ++i) {
      out.w[i] = block.q[i] % 16;
      out.w[i + 16] = block.q[i] / 16;
    }
  } else if (m.type == DType::kQ5_0 || m.type == DType::kQ5_1) {
    const bool has_min = m.type == DType::kQ5_1;
    const auto* bytes = reinterpret_cast<const uint8_t*>(m.data) + at * (has_min ? 24 : 22);
    const uint8_t *high = bytes + (has_min ? 4 : 2), *low = high + 4;
    const auto half_at = [&](int i) { return half_to_float(bytes[i] | bytes[i + 1] << 8); };
    out.dw = half_at(0);
    out.mw = has_min ? -half_at(2) : 0;
    out.has_min = has_min;
    for (int i = 0; i < 32; ++i) {
      const int four = i < 16 ? low[i] % 16 : low[i - 16] / 16;
      out.w[i] = four + (high[i / 8] >> i % 8 & 1) * 16 - (has_min ? 0 : 16);
    }
  } else if (m.type == DType::kQ5_K) {
    const auto& block = reinterpret_cast<const BlockQ5_K*>(m.data)[at / 8];
    const int part = b % 8;
    const Q4KScale s = q4_k_scale(block.scales, part);
    out.dw = half_to_float(block.d) * s.scale;
    out.mw = half_to_float(block.dmin) * s.min;
    out.has_min = true;
    for (int i = 0; i < 32; ++i) {
      const int byte = block.q[part / 2 * 32 + i];
      out.w[i] = (part % 2 ? byte / 16 : byte % 16) + (block.high[i] >> part & 1) * 16;
    }
  } else if (m.type == DType::kQ6_K) {
    const auto& block = reinterpret_cast<const BlockQ6_K*>(m.data)[at / 8];
    const int part = b % 8, half = part / 4;  // 32 and 128 numbers
    out.dw = half_to_float(block.d);
    for (int i = 0; i < 32; ++i) {
      const int low = block.low[half * 64 + part % 2 * 32 + i] / (part % 4 < 2 ? 1 : 16) % 16;
      const int high = block.high[half * 32 + i] >> part % 4 * 2 & 3;
      out.w[i] = block.scales[part * 2 + i / 16] * (low + 16 * high - 32);
    }
  } else {
    const auto& block = reinterpret_cast<const BlockQ4_K*>(m.data)[at / 8];
    const int part = b % 8;
    const Q4KScale s = q4_k_scale(block, part);
    out.dw = half_to_float(block.d) * s.scale;
    out.mw = half_to_float(block.dmin) * s.min;
    out.has_min = true;
    for (int i = 0; i < 32; ++i) {
      const uint8_t both = block.q[part / 2 * 32 + i];
      out.w[i] = part % 2 == 0 ? both % 16 : both / 16;
    }
  }
  return out;
}

// y (n_rows, n_out) = W x of x (n_rows, n_in), of any type that takes INT8 rows.
inline std::vector<float> formula(const Matrix& m, const std::vector<float>& x, int n_rows) {
  if (runs_as(m.type) != m.type) {
    std::vector<BlockQ8_0> blocks(size_t(m.n_out) * m.n_in / 32);
    for (int o = 0; o < m.n_out; ++o) convert_to_int8(m, o, &blocks[size_t(o) * m.n_in / 32]);
    const auto* data = reinterpret_cast<const std::byte*>(blocks.data());
    return formula({DType::kQ8_0, m.n_out, m.n_in, data}, x, n_rows);
  }
  std::vector<RowBlock> rows;
  for (size_t i = 0; i < x.size(); i += 32) rows.push_back(quantize_plainly(&x[i]));
  std::vector<float> y(size_t(n_rows) * m.n_out);
  const int n_blocks = m.n_in / 32;
  for (int o = 0; o < m.n_out; ++o) {
    std::vector<float> total(n_rows);
    for (int c = 0; c < k_chunks(m.n_in); ++c) {
      std::vector<float> acc(n_rows);
      for (int b = k_chunk_begin(m.n_in, c); b < k_chunk_begin(m.n_in, c + 1); ++b) {
        const WeightBlock w = weight_block(m, o, b);
        for (int r = 0; r < n_rows; ++r) {
          const RowBlock& row = rows[size_t(r) * n_blocks + b];
          int isum = 0, xsum = 0;
          for (int i = 0; i < 32; ++i) isum += w.w[i] * row.q[i];
          for (int i = 0; i < 32; ++i) xsum += row.q[i];
          acc[r] = std::fma(static_cast<float>(isum), w.dw * row.dx, acc[r]);
          if (!w.has_min) continue;
          acc[r] = std::fma(static_cast<float>(-xsum) * row.dx, w.mw, acc[r]);
        }
      }
      for (int r = 0; r < n_rows; ++r) total[r] += acc[r];
    }
    for (int r = 0; r < n_rows; ++r) y[size_t(r) * m.n_out + o] = total[r];
  }
  return y;
}

}  // namespace specbound::test
