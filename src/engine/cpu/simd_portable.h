// Sixteen float lanes and the INT8 tile product in plain C++: the reference for the other two, and
// what runs on a CPU without AVX2.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/cpu/tiles.h"
#include "numerics/half.h"

namespace specbound {
namespace {

constexpr int kMaxTileRows = 4;
constexpr int kAttentionSums = 6;  // vectors of sums that attention holds in registers at once

struct V {
  float lane[16];
};
struct Mask {
  bool lane[16];
};

template <class F>
inline V each(F f) {
  V v;
  for (int i = 0; i < 16; ++i) v.lane[i] = f(i);
  return v;
}

inline V set1(float x) {
  return each([&](int) { return x; });
}
inline V zero() {
  return set1(0);
}
inline V load_n(const float* p, int n) {
  return each([&](int i) { return i < n ? p[i] : 0.0f; });
}
inline V load(const float* p) {
  return load_n(p, 16);
}
inline void store_n(float* p, V a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.lane[i];
}
inline void store(float* p, V a) {
  store_n(p, a, 16);
}

inline V add(V a, V b) {
  return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline V sub(V a, V b) {
  return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline V mul(V a, V b) {
  return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline V div(V a, V b) {
  return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline V fma(V a, V b, V c) {
  return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
inline V max(V a, V b) {
  return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline V min(V a, V b) {
  return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
// Nearest even for |x| < 2^22, which is all that is asked of it: adding 1.5 * 2^23 leaves no
// fraction.
inline float round_even(float x) {
  return (x + 12582912.0f) - 12582912.0f;
}
inline V round_even(V a) {
  return each([&](int i) { return round_even(a.lane[i]); });
}
inline Mask less(V a, V b) {
  Mask m;
  for (int i = 0; i < 16; ++i) m.lane[i] = a.lane[i] < b.lane[i];
  return m;
}
inline V select(Mask m, V yes, V no) {
  return each([&](int i) { return m.lane[i] ? yes.lane[i] : no.lane[i]; });
}
inline V abs(V a) {
  return each([&](int i) { return std::fabs(a.lane[i]); });
}
// `magnitude`, not negative, with the signs of x.
inline V with_sign(V magnitude, V x) {
  return each([&](int i) { return std::copysign(magnitude.lane[i], x.lane[i]); });
}
inline V lanes() {
  return each([](int i) { return static_cast<float>(i); });
}
inline V swap_pairs(V a) {  // lanes 1, 0, 3, 2, ...
  return each([&](int i) { return a.lane[i ^ 1]; });
}
inline V pow2(V n) {
  return each([&](int i) {  // NaN has no integer: any power does, its product is NaN
    const int e = n.lane[i] == n.lane[i] ? static_cast<int>(n.lane[i]) : 0;
    return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
  });
}

inline float sum(V a) {
  for (int step = 8; step >= 1; step /= 2) {
    for (int i = 0; i < step; ++i) a.lane[i] += a.lane[i + step];
  }
  return a.lane[0];
}
inline float max_lane(V a) {
  for (int step = 8; step >= 1; step /= 2) {
    for (int i = 0; i < step; ++i) {
      a.lane[i] = a.lane[i] > a.lane[i + step] ? a.lane[i] : a.lane[i + step];
    }
  }
  return a.lane[0];
}
inline V max_bits(V a, V b) {
  return each([&](int i) {
    const auto x = std::bit_cast<int32_t>(a.lane[i]), y = std::bit_cast<int32_t>(b.lane[i]);
    return std::bit_cast<float>(x > y ? x : y);
  });
}
inline float max_magnitude(V a) {
  int32_t m = 0;
  for (float x : a.lane) {
    const auto bits = std::bit_cast<int32_t>(x);
    m = bits > m ? bits : m;
  }
  return std::bit_cast<float>(m);
}

inline void prefetch(const void*) {}

inline float half_scalar(uint16_t h) {
  return half_to_float(h);
}
inline V load_f16_n(const uint16_t* p, int n) {
  return each([&](int i) { return i < n ? half_to_float(p[i]) : 0.0f; });
}
inline V load_f16(const uint16_t* p) {
  return load_f16_n(p, 16);
}
inline V load_bf16_n(const uint16_t* p, int n) {
  return each([&](int i) { return i < n ? bfloat_to_float(p[i]) : 0.0f; });
}
inline V load_bf16(const uint16_t* p) {
  return load_bf16_n(p, 16);
}
inline V load_u8(const uint8_t* p) {
  return each([&](int i) { return static_cast<float>(p[i]); });
}
inline V load_i8(const uint8_t* p) {
  return each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
}
inline void store_f16(uint16_t* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_half(a.lane[i]);
}

inline int store_int8(int8_t* p, V a) {
  int total = 0;
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int8_t>(round_even(a.lane[i]));
    total += p[i];
  }
  return total;
}

template <int R>
inline void tile_dot(const uint8_t* w, const int8_t* x, const RowBlock*, V* isum) {
  for (int r = 0; r < R; ++r) {
    int32_t acc[16] = {};
    for (int g = 0; g < 8; ++g) {
      for (int o = 0; o < 16; ++o) {
        for (int k = 0; k < 4; ++k) {
          acc[o] += (static_cast<int32_t>(w[64 * g + 4 * o + k]) - 128) * x[32 * r + 4 * g + k];
        }
      }
    }
    isum[r] = each([&](int i) { return static_cast<float>(acc[i]); });
  }
}

template <int R, int kZero>
inline void tile_dot_4bit(const uint8_t* w, const int8_t* x, const RowBlock*, V* isum) {
  for (int r = 0; r < R; ++r) {
    int32_t acc[16] = {};
    for (int g = 0; g < 4; ++g) {
      for (int o = 0; o < 16; ++o) {
        for (int k = 0; k < 4; ++k) {
          const int both = w[64 * g + 4 * o + k], at = 32 * r + 4 * g + k;
          acc[o] += ((both & 15) - kZero) * x[at] + ((both >> 4) - kZero) * x[at + 16];
        }
      }
    }
    isum[r] = each([&](int i) { return static_cast<float>(acc[i]); });
  }
}

template <int R, int kZero>
inline void tile_dot_5bit(const uint8_t* w, const int8_t* x, const RowBlock*, V* isum) {
  int8_t eight[512];  // as tile_dot() has them, but for the 128
  for (int g = 0; g < 4; ++g) {
    for (int i = 0; i < 64; ++i) {
      const uint8_t both = w[64 * g + i], fifths = w[256 + i];
      eight[64 * g + i] = static_cast<int8_t>(((both & 15) | (fifths >> g & 1) << 4) - kZero);
      eight[64 * g + 256 + i] =
          static_cast<int8_t>((both >> 4 | (fifths >> (g + 4) & 1) << 4) - kZero);
    }
  }
  for (int r = 0; r < R; ++r) {
    int32_t acc[16] = {};
    for (int g = 0; g < 8; ++g) {
      for (int o = 0; o < 16; ++o) {
        for (int k = 0; k < 4; ++k) acc[o] += eight[64 * g + 4 * o + k] * x[32 * r + 4 * g + k];
      }
    }
    isum[r] = each([&](int i) { return static_cast<float>(acc[i]); });
  }
}

constexpr float kSixBitUnit = 1;

template <int R>
inline void tile_dot_6bit(const uint8_t* w, const int8_t* x, const RowBlock*, V* first16,
                          V* second16) {
  for (int r = 0; r < R; ++r) {
    int32_t acc[2][16] = {};
    for (int half = 0; half < 2; ++half) {
      for (int at = 0; at < 64; ++at) {  // byte k of output o
        const uint8_t* p = w + 192 * half + at;
        const int a = p[0], b = p[64], c = p[128], o = at / 4, k = at % 4;
        const int8_t* row = x + 32 * r + 16 * half + k;
        const int fourth = (a & 3) << 4 | (b & 3) << 2 | (c & 3);
        acc[half][o] += ((a >> 2) - 32) * row[0] + ((b >> 2) - 32) * row[4] +
                        ((c >> 2) - 32) * row[8] + (fourth - 32) * row[12];
      }
    }
    first16[r] = each([&](int i) { return static_cast<float>(acc[0][i]); });
    second16[r] = each([&](int i) { return static_cast<float>(acc[1][i]); });
  }
}

inline int32_t block_dot(const int8_t* w, const int8_t* x) {
  int32_t s = 0;
  for (int i = 0; i < 32; ++i) s += static_cast<int32_t>(w[i]) * x[i];
  return s;
}

}  // namespace
}  // namespace specbound
