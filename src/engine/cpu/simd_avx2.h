// Sixteen float lanes, as two registers of eight, on AVX2 + FMA + F16C. The products of tiles come
// with tile_dot_avx2.h or tile_dot_vnni.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace specbound {
namespace {

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

// Four bytes a lane: |w| * sign(x, w), which cannot saturate 16 bits since |x| <= 127, |w| <= 128.
inline __m256i dot4(__m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

inline int32_t block_dot(const int8_t* w, const int8_t* x) {
  return sum(dot4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)),
                  _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
}

}  // namespace
}  // namespace specbound
