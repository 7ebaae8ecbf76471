// Sixteen float lanes, as two registers of eight, and the INT8 tile product on AVX2 + FMA + F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace specbound {
namespace {

// Four rows share what is unpacked of a tile. Their float sums wait in memory meanwhile: sixteen
// registers hold no more than the integer ones.
constexpr int kMaxTileRows = 4;
constexpr int kAttentionSums = 6;  // vectors of sums that attention holds in registers at once

struct V {
  __m256 a, b;  // lanes 0..7, 8..15
};
struct Mask {
  __m256 a, b;
};

inline V zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
inline V set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline V load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline V load_n(const float* p, int n) {
  float all[16] = {};
  for (int i = 0; i < n; ++i) all[i] = p[i];
  return load(all);
}
inline void store(float* p, V v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
inline void store_n(float* p, V v, int n) {
  float all[16];
  store(all, v);
  for (int i = 0; i < n; ++i) p[i] = all[i];
}

inline V add(V x, V y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
inline V sub(V x, V y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
inline V mul(V x, V y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
inline V div(V x, V y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
inline V fma(V x, V y, V z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline V max(V x, V y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
inline V min(V x, V y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
inline V round_even(V x) {
  return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | 8),
          _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | 8)};
}
inline Mask less(V x, V y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
inline V select(Mask m, V yes, V no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
inline V abs(V x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
// `magnitude`, not negative, with the signs of x.
inline V with_sign(V magnitude, V x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(magnitude.a, _mm256_and_ps(sign, x.a)),
          _mm256_or_ps(magnitude.b, _mm256_and_ps(sign, x.b))};
}
inline V lanes() {
  return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
}
inline V swap_pairs(V x) {  // lanes 1, 0, 3, 2, ...
  return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
}
inline __m256 pow2(__m256 n) {
  const __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
inline V pow2(V n) {
  return {pow2(n.a), pow2(n.b)};
}

inline float sum(V x) {
  const __m256 b = _mm256_add_ps(x.a, x.b);
  __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline float max_lane(V x) {
  const __m256 b = _mm256_max_ps(x.a, x.b);
  __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
inline __m256 max_bits(__m256 x, __m256 y) {
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x), _mm256_castps_si256(y)));
}
inline V max_bits(V x, V y) {
  return {max_bits(x.a, y.a), max_bits(x.b, y.b)};
}
inline float max_magnitude(V x) {
  const __m256i b = _mm256_castps_si256(max_bits(x.a, x.b));
  __m128i c = _mm_max_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(c));
}

// Of the cache line at p, which need not be anyone's.
inline void prefetch(const void* p) {
  _mm_prefetch(p, _MM_HINT_T0);
}

inline float half_scalar(uint16_t h) {
  return _cvtsh_ss(h);
}
inline __m256 load8_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline V load_f16(const uint16_t* p) {
  return {load8_f16(p), load8_f16(p + 8)};
}
inline __m256 load8_bf16(const uint16_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(b), 16));
}
inline V load_bf16(const uint16_t* p) {
  return {load8_bf16(p), load8_bf16(p + 8)};
}
inline V load_f16_n(const uint16_t* p, int n) {
  uint16_t all[16] = {};
  for (int i = 0; i < n; ++i) all[i] = p[i];
  return load_f16(all);
}
inline V load_bf16_n(const uint16_t* p, int n) {
  uint16_t all[16] = {};
  for (int i = 0; i < n; ++i) all[i] = p[i];
  return load_bf16(all);
}
inline V load_u8(const uint8_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(b, 8)))};
}
inline V load_i8(const uint8_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8)))};
}
inline void store_f16(uint16_t* p, V x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | 8;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, kNearest));
}

inline int32_t sum(__m256i s) {
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}

inline int store_int8(int8_t* p, V x) {
  const __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
  // packs works within 128-bit halves; the permutation puts the lanes back in order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  return sum(_mm256_add_epi32(a, b));
}

// The four bytes at p in each lane.
inline __m256i broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}

// add(0..n-1). For one row unrolled; for several the loop stays one, or values of all its turns are
// alive at once, and go to memory and back.
template <int R, class Add>
[[gnu::always_inline]] inline void each_group(int n, Add add) {
  if constexpr (R == 1) {
#pragma GCC unroll 8
    for (int g = 0; g < n; ++g) add(g);
  } else {
#pragma GCC unroll 1
    for (int g = 0; g < n; ++g) add(g);
  }
}

// Four bytes a lane: |w| * sign(x, w), which cannot saturate 16 bits since |x| <= 127, |w| <= 128.
inline __m256i dot4(__m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

template <int R>
inline void tile_dot(const uint8_t* w, const int8_t* x, const int32_t*, V* isum) {
  const __m256i flip = _mm256_set1_epi8(-128);  // tiles hold w + 128
  __m256i lo[R], hi[R];
  for (int r = 0; r < R; ++r) lo[r] = hi[r] = _mm256_setzero_si256();
  each_group<R>(8, [&](int g) {
    const auto* p = reinterpret_cast<const __m256i*>(w + 64 * g);
    const __m256i w0 = _mm256_xor_si256(_mm256_loadu_si256(p), flip);
    const __m256i w1 = _mm256_xor_si256(_mm256_loadu_si256(p + 1), flip);
    for (int r = 0; r < R; ++r) {
      const __m256i xs = broadcast4(x + 32 * r + 4 * g);
      lo[r] = _mm256_add_epi32(lo[r], dot4(w0, xs));
      hi[r] = _mm256_add_epi32(hi[r], dot4(w1, xs));
    }
  });
  for (int r = 0; r < R; ++r) isum[r] = {_mm256_cvtepi32_ps(lo[r]), _mm256_cvtepi32_ps(hi[r])};
}

// Sixteen products of a lane of 16 bits stay within it: 16 * 15 * 127 = 30480.
template <int R, int kZero>
inline void tile_dot_4bit(const uint8_t* w, const int8_t* x, const int32_t* bias, V* isum) {
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256i lo[R], hi[R];
  for (int r = 0; r < R; ++r) lo[r] = hi[r] = _mm256_setzero_si256();
  each_group<R>(4, [&](int g) {
    const auto* p = reinterpret_cast<const __m256i*>(w + 64 * g);
    const __m256i a = _mm256_loadu_si256(p), b = _mm256_loadu_si256(p + 1);
    const __m256i a0 = _mm256_and_si256(a, low), b0 = _mm256_and_si256(b, low);
    const __m256i a1 = _mm256_and_si256(_mm256_srli_epi16(a, 4), low);
    const __m256i b1 = _mm256_and_si256(_mm256_srli_epi16(b, 4), low);
    for (int r = 0; r < R; ++r) {
      const __m256i x0 = broadcast4(x + 32 * r + 4 * g);
      const __m256i x1 = broadcast4(x + 32 * r + 4 * g + 16);
      lo[r] = _mm256_add_epi16(lo[r], _mm256_maddubs_epi16(a0, x0));
      hi[r] = _mm256_add_epi16(hi[r], _mm256_maddubs_epi16(b0, x0));
      lo[r] = _mm256_add_epi16(lo[r], _mm256_maddubs_epi16(a1, x1));
      hi[r] = _mm256_add_epi16(hi[r], _mm256_maddubs_epi16(b1, x1));
    }
  });
  for (int r = 0; r < R; ++r) {
    const __m256i first = _mm256_set1_epi32(kZero ? bias[r] / (128 / kZero) : 0);
    isum[r] = {_mm256_cvtepi32_ps(_mm256_add_epi32(first, _mm256_madd_epi16(lo[r], ones))),
               _mm256_cvtepi32_ps(_mm256_add_epi32(first, _mm256_madd_epi16(hi[r], ones)))};
  }
}

// The same of 5 bits, less kZero each (0 or 16): the 64 bytes behind the others hold the fifth
// bits, that of group g in bit g of a byte. Eight products of a lane of 16 bits stay within it:
// 8 * 31 * 127 = 31496.
template <int R, int kZero>
inline void tile_dot_5bit(const uint8_t* w, const int8_t* x, const int32_t* bias, V* isum) {
  const __m256i low = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
  const __m256i ones = _mm256_set1_epi16(1);
  const auto line = [&](int i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w) + i);
  };
  __m256i sum[2][R];  // of eight outputs each
#pragma GCC unroll 1
  for (int half = 0; half < 2; ++half) {
    for (int r = 0; r < R; ++r) {
      sum[half][r] = _mm256_set1_epi32(kZero ? bias[r] / (128 / kZero) : 0);
    }
    __m256i above = line(8 + half), below = _mm256_slli_epi16(above, 4);
#pragma GCC unroll 1
    for (int pair = 0; pair < 2; ++pair) {
      __m256i products[R];
      for (int g = 2 * pair; g < 2 * pair + 2; ++g) {
        const __m256i both = line(2 * g + half);
        const __m256i w0 =
            _mm256_or_si256(_mm256_and_si256(both, low), _mm256_and_si256(below, fifth));
        const __m256i w1 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(both, 4), low),
                                           _mm256_and_si256(above, fifth));
        below = _mm256_srli_epi16(below, 1);
        above = _mm256_srli_epi16(above, 1);
        for (int r = 0; r < R; ++r) {
          const int8_t* at = x + 32 * r + 4 * g;
          const __m256i both_products =
              _mm256_add_epi16(_mm256_maddubs_epi16(w0, broadcast4(at)),
                               _mm256_maddubs_epi16(w1, broadcast4(at + 16)));
          products[r] = g % 2 == 0 ? both_products : _mm256_add_epi16(products[r], both_products);
        }
      }
      for (int r = 0; r < R; ++r) {
        sum[half][r] = _mm256_add_epi32(sum[half][r], _mm256_madd_epi16(products[r], ones));
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    isum[r] = {_mm256_cvtepi32_ps(sum[0][r]), _mm256_cvtepi32_ps(sum[1][r])};
  }
}

constexpr float kSixBitUnit = 1;

// Of 16 k of 8 outputs, 32 bytes of each line of a block of 6 bits. Two products of a lane of 16
// bits stay within it: 4 * 63 * 127 = 32004. -128 of bias are 32.
template <int R>
inline void half_dot_6bit(const uint8_t* w, const int8_t* x, const int32_t* bias, __m256* isum) {
  const __m256i ones = _mm256_set1_epi16(1), two = _mm256_set1_epi8(3), six = _mm256_set1_epi8(63);
  const auto line = [&](int i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 64 * i));
  };
  const auto upper = [&](__m256i v) { return _mm256_and_si256(_mm256_srli_epi16(v, 2), six); };
  const auto lower = [&](__m256i v, int by) {
    return _mm256_slli_epi16(_mm256_and_si256(v, two), by);
  };
  const __m256i a = line(0), b = line(1), c = line(2);
  const __m256i w0 = upper(a), w1 = upper(b), w2 = upper(c);
  const __m256i w3 = _mm256_or_si256(lower(a, 4), _mm256_or_si256(lower(b, 2), lower(c, 0)));
  for (int r = 0; r < R; ++r) {
    const int8_t* at = x + 32 * r;
    const auto products = [&](__m256i u, int i, __m256i v) {
      const __m256i p = _mm256_maddubs_epi16(u, broadcast4(at + 4 * i));
      const __m256i q = _mm256_maddubs_epi16(v, broadcast4(at + 4 * i + 4));
      return _mm256_madd_epi16(_mm256_add_epi16(p, q), ones);
    };
    const __m256i sum = _mm256_add_epi32(products(w0, 0, w1), products(w2, 2, w3));
    isum[r] = _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(bias[2 * r] / 4)));
  }
}

template <int R>
inline void tile_dot_6bit(const uint8_t* w, const int8_t* x, const int32_t* half_bias, V* first16,
                          V* second16) {
#pragma GCC unroll 1
  for (int half = 0; half < 2; ++half) {
    V* const out = half == 0 ? first16 : second16;
    __m256 lo[R], hi[R];
    half_dot_6bit<R>(w + 192 * half, x + 16 * half, half_bias + half, lo);
    half_dot_6bit<R>(w + 192 * half + 32, x + 16 * half, half_bias + half, hi);
    for (int r = 0; r < R; ++r) out[r] = {lo[r], hi[r]};
  }
}

inline int32_t block_dot(const int8_t* w, const int8_t* x) {
  return sum(dot4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)),
                  _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
}

}  // namespace
}  // namespace specbound
