// Four floats side by side: plain loops over sums do not vectorize, their order being part of what
// they mean.
#include "train/softmax_loss.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "train/blocks.h"

namespace specbound {

namespace {

typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

inline Float4 load(const float* p) {
  Float4 v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

inline void store(float* p, Float4 v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

inline float sum(Float4 v) {
  return (v[0] + v[1]) + (v[2] + v[3]);
}

// e^x for x <= 0, relative error below 2e-7; e^-87 below that, and for NaN.
inline Float4 exp_negative(Float4 x) {
  const Float4 lowest = Float4{} - 87.0f;
  x = x > lowest ? x : lowest;
  const Float4 rounder = Float4{} + 0x1.8p23f;
  const Float4 shifted = x * 0x1.715476p+0f + rounder;
  const Float4 k = shifted - rounder;
  const Float4 r = (x - k * 0x1.62ep-1f) - k * 0x1.0bfbe8p-15f;
  Float4 p = Float4{} + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  return std::bit_cast<Float4>(std::bit_cast<Int4>(p) + (std::bit_cast<Int4>(shifted) << 23));
}

float largest(const float* z, int n) {
  Float4 most = Float4{} - std::numeric_limits<float>::max();
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    const Float4 v = load(z + i);
    most = v > most ? v : most;
  }
  float result = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
  for (; i < n; ++i) result = std::max(result, z[i]);
  return result;
}

// z becomes e^(z - shift); returns the sum, and in `weighted` that of e^(z - shift) (z - shift).
float exponentials(float* z, int n, float shift, float& weighted) {
  Float4 total = {}, products = {};
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    const Float4 x = load(z + i) - shift;
    const Float4 e = exp_negative(x);
    total += e;
    products += e * x;
    store(z + i, e);
  }
  float rest = 0, rest_products = 0;
  for (; i < n; ++i) {
    const float x = z[i] - shift;
    z[i] = exp_negative(Float4{} + x)[0];
    rest += z[i];
    rest_products += z[i] * x;
  }
  weighted = sum(products) + rest_products;
  return sum(total) + rest;
}

float dot_shifted(const float* weights, const float* z, int n, float shift) {
  Float4 total = {};
  int i = 0;
  for (; i + 4 <= n; i += 4) total += load(weights + i) * (load(z + i) - shift);
  float rest = 0;
  for (; i < n; ++i) rest += weights[i] * (z[i] - shift);
  return sum(total) + rest;
}

// cap * tanh(z / cap).
inline Float4 capped(Float4 z, float cap) {
  const Float4 x = z / cap;
  const Float4 e = exp_negative(x > 0 ? -2 * x : 2 * x);
  const Float4 height = (1 - e) / (1 + e) * cap;
  return x > 0 ? height : -height;
}

void cap_row(float* z, int n, float cap) {
  int i = 0;
  for (; i + 4 <= n; i += 4) store(z + i, capped(load(z + i), cap));
  for (; i < n; ++i) z[i] = capped(Float4{} + z[i], cap)[0];
}

constexpr int kRows = 8;  // a thread takes at a time

}  // namespace

void cap_rows(ThreadPool& pool, int n, int width, float softcap, float factor, float* z) {
  if (softcap <= 0 && factor == 1) return;
  for_blocks(pool, n, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = z + r * width;
      if (softcap > 0) cap_row(row, width, softcap);
      for (int i = 0; i < width; ++i) row[i] *= factor;
    }
  });
}

void softmax_rows(ThreadPool& pool, int n, int width, float* z, float* entropy) {
  for_blocks(pool, n, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = z + r * width;
      float weighted;
      const float total = exponentials(row, width, largest(row, width), weighted);
      const float scale = 1 / total;
      for (int i = 0; i < width; ++i) row[i] *= scale;
      if (entropy) entropy[r] = std::log(total) - weighted * scale;
    }
  });
}

void kl_rows(ThreadPool& pool, int n, int width, float softcap, float* z, const float* target,
             const float* entropy, float weight, float* loss) {
  for_blocks(pool, n, kRows, [&](int64_t begin, int64_t end) {
    std::vector<float> slope;  // (width) dc/dz = 1 - (c / cap)^2
    for (int64_t r = begin; r < end; ++r) {
      float* row = z + r * width;
      const float* goal = target + r * width;
      if (softcap > 0) {
        cap_row(row, width, softcap);
        slope.resize(static_cast<size_t>(width));
        for (int i = 0; i < width; ++i) {
          const float part = row[i] / softcap;
          slope[i] = 1 - part * part;
        }
      }
      const float top = largest(row, width);
      const float expected = dot_shifted(goal, row, width, top);
      float unused;
      const float total = exponentials(row, width, top, unused);
      loss[r] = std::log(total) - expected - entropy[r];
      const float scale = weight / total;
      for (int i = 0; i < width; ++i) row[i] = row[i] * scale - goal[i] * weight;
      if (softcap > 0) {
        for (int i = 0; i < width; ++i) row[i] *= slope[i];
      }
    }
  });
}

TopOfRow top_of_row(const float* z, int width, float temperature) {
  TopOfRow top{0, z[0], -std::numeric_limits<float>::infinity(), 0, 0};
  for (int i = 1; i < width; ++i) {
    if (z[i] > top.first) {
      top.second = top.first;
      top.first = z[i];
      top.index = i;
    } else {
      top.second = std::max(top.second, z[i]);
    }
  }
  Float4 total = {}, annealed = {};
  const float scale = 1 / temperature;
  int i = 0;
  for (; i + 4 <= width; i += 4) {
    const Float4 x = load(z + i) - top.first;
    total += exp_negative(x);
    annealed += exp_negative(x * scale);
  }
  float rest = 0, rest_annealed = 0;
  for (; i < width; ++i) {
    const Float4 x = Float4{} + (z[i] - top.first);
    rest += exp_negative(x)[0];
    rest_annealed += exp_negative(x * scale)[0];
  }
  top.probability = 1 / (sum(total) + rest);
  top.annealed = 1 / (sum(annealed) + rest_annealed);
  return top;
}

ConfidenceCurve confidence_curve(const float* z, int width, float first) {
  // e^(x / T) becomes e^(x / (T / 2)); 0 where that would be subnormal, which is slow.
  const auto halve_temperature = [](Float4 e) {
    const Float4 kept = e > Float4{} + 0x1p-63f ? e : Float4{};
    return kept * kept;
  };
  ConfidenceCurve curve;
  for (int step = 0; step < kTemperaturesAnOctave; ++step) {
    const float scale = 1 / learnable_temperature(step);
    Float4 total[kTemperatureOctaves] = {};
    int i = 0;
    for (; i + 4 <= width; i += 4) {
      Float4 e = exp_negative((load(z + i) - first) * scale);
      for (Float4& octave : total) {
        octave += e;
        e = halve_temperature(e);
      }
    }
    for (; i < width; ++i) {
      Float4 e = exp_negative(Float4{} + (z[i] - first) * scale);
      for (Float4& octave : total) {
        octave[0] += e[0];
        e = halve_temperature(e);
      }
    }
    for (int octave = 0; octave < kTemperatureOctaves; ++octave) {
      curve[static_cast<size_t>(octave * kTemperaturesAnOctave + step)] = 1 / sum(total[octave]);
    }
  }
  return curve;
}

}  // namespace specbound
