// Sixteen float lanes and the INT8 tile product on AVX-512 (F, BW, DQ, VL, VNNI).
// The simd_*.h files, that of AVX2 with a tile_dot_*.h, define the same names with the same
// meaning, bit for bit.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "engine/cpu/tiles.h"

namespace specbound {
namespace {

constexpr int kMaxTileRows = 8;  // rows of a panel that one pass over a tile serves from registers
constexpr int kAttentionSums = 24;  // vectors of sums that attention holds in registers at once

using V = __m512;
using I = __m512i;
using Mask = __mmask16;

inline __mmask16 first(int n) {
  return static_cast<__mmask16>((1u << n) - 1);
}

inline V zero() {
  return _mm512_setzero_ps();
}
inline V set1(float x) {
  return _mm512_set1_ps(x);
}
inline V load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline V load_n(const float* p, int n) {
  return _mm512_maskz_loadu_ps(first(n), p);
}
inline void store(float* p, V a) {
  _mm512_storeu_ps(p, a);
}
inline void store_n(float* p, V a, int n) {
  _mm512_mask_storeu_ps(p, first(n), a);
}

inline V add(V a, V b) {
  return _mm512_add_ps(a, b);
}
inline V sub(V a, V b) {
  return _mm512_sub_ps(a, b);
}
inline V mul(V a, V b) {
  return _mm512_mul_ps(a, b);
}
inline V div(V a, V b) {
  return _mm512_div_ps(a, b);
}
inline V fma(V a, V b, V c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline V max(V a, V b) {
  return _mm512_max_ps(a, b);
}  // a > b ? a : b, so NaN in a gives b
inline V min(V a, V b) {
  return _mm512_min_ps(a, b);
}  // a < b ? a : b
inline V round_even(V a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | 8);
}
inline Mask less(V a, V b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
inline V select(Mask m, V yes, V no) {
  return _mm512_mask_blend_ps(m, no, yes);
}
inline V abs(V a) {
  return _mm512_abs_ps(a);
}
// `magnitude`, not negative, with the signs of x.
inline V with_sign(V magnitude, V x) {
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(magnitude), sign));
}
inline V lanes() {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
inline V swap_pairs(V a) {  // lanes 1, 0, 3, 2, ...
  return _mm512_permute_ps(a, 0xb1);
}
// 2^n for integer-valued n in [-126, 127].
inline V pow2(V n) {
  const I e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}

// The fixed tree: lane i + lane i+8, then +4, +2, +1.
inline float sum(V a) {
  __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
// Largest lane, by the same tree.
inline float max_lane(V a) {
  __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
// Largest lane of non-negative a; the bits of NaN and infinity sort above every finite magnitude.
inline float max_magnitude(V a) {
  const int m = _mm512_reduce_max_epi32(_mm512_castps_si512(a));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(m)));
}
inline V max_bits(V a, V b) {  // of non-negative lanes, as integers
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

// Of the cache line at p, which need not be anyone's.
inline void prefetch(const void* p) {
  _mm_prefetch(p, _MM_HINT_T0);
}

inline float half_scalar(uint16_t h) {
  return _cvtsh_ss(h);
}
inline V load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline V load_bf16(const uint16_t* p) {
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}
inline V load_f16_n(const uint16_t* p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}
inline V load_bf16_n(const uint16_t* p, int n) {
  const __m256i b = _mm256_maskz_loadu_epi16(first(n), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}
inline V load_u8(const uint8_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(b));
}
inline V load_i8(const uint8_t* p) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
}
inline void store_f16(uint16_t* p, V a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | 8));
}

// 16 lanes to int8, nearest even; lanes are within +-127. Returns their sum.
inline int store_int8(int8_t* p, V a) {
  const I i = _mm512_cvtps_epi32(a);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(i));
  return _mm512_reduce_add_epi32(i);
}

// Weights of a block, `kLines` cache lines at w, that are read 8 KB from now. Many rows keep the
// core busy for so long that the hardware prefetcher falls behind: from memory, 8 rows then cost 31
// ns a block on a Zen 4 core, 24 with this, 23 from cache. Up to three rows that core serves better
// alone, of 8 bits, which take little work, up to five (a pass over 4 rows takes 1.04 of one, with
// this 1.11); an Emerald Rapids core not: a pass over SmolLM2 takes 3.0 ms with it and 3.5 without,
// over two rows 3.1 and 4.1 (rows.sh).
template <int R, int kLines>
inline void prefetch_weights(const uint8_t* w) {
  // Not a branch: GCC 12 leaves out what is behind it in loops over 4 bits.
  constexpr int kAlone = kLines == 8 ? 5 : 3;
  const int ahead = R <= kAlone && __builtin_cpu_is("amd") ? 0 : 8192;
#pragma GCC unroll 8
  for (int i = 0; i < kLines; ++i) _mm_prefetch(w + ahead + 64 * i, _MM_HINT_T1);
}

// acc + the products of the four bytes at x with those of each lane of w, which have no sign. GCC
// 12 knows no form of this instruction that takes x from memory for all lanes: it loads them into a
// register first, an instruction more for each product. Taken from memory a block of Q4_1 takes
// 0.82 of that time at 8 rows and 0.85 at 4, of Q8_0 0.87 (Emerald Rapids, in cache). Clang has it.
inline I add_products(I acc, I w, const int8_t* x) {
#ifdef __clang__
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(four));
#else
  using Four = const int8_t(*)[4];
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*reinterpret_cast<Four>(x)));
  return acc;
#endif
}

// isum[r] (16 outputs) = exact dot product of one block of a tile with row r: 32 bytes at x + 32 r.
template <int R>
inline void tile_dot(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  prefetch_weights<R, 8>(w);
  I acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = _mm512_set1_epi32(of[r].bias);
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    const I wg = _mm512_loadu_si512(w + 64 * g);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = add_products(acc[r], wg, x + 32 * r + 4 * g);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) isum[r] = _mm512_cvtepi32_ps(acc[r]);
}

// The same of weights of 4 bits, less kZero each (0 or 8): of the 256 bytes of a block, those of
// group g hold group g + 4 above.
template <int R, int kZero>
inline void tile_dot_4bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  const I low = _mm512_set1_epi8(15);
  prefetch_weights<R, 4>(w);
  I acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = _mm512_set1_epi32(kZero ? of[r].bias / (128 / kZero) : 0);
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const I both = _mm512_loadu_si512(w + 64 * g);
    const I w0 = _mm512_and_si512(both, low);
    const I w1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      acc[r] = add_products(acc[r], w0, x + 32 * r + 4 * g);
      acc[r] = add_products(acc[r], w1, x + 32 * r + 4 * g + 16);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) isum[r] = _mm512_cvtepi32_ps(acc[r]);
}

// The same of 5 bits, less kZero each (0 or 16): the 64 bytes behind the others hold the fifth
// bits, that of group g in bit g of a byte.
template <int R, int kZero>
inline void tile_dot_5bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  const I low = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
  constexpr int kOrAnd = 0xf8;  // first | (second & third)
  prefetch_weights<R, 5>(w);
  I acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = _mm512_set1_epi32(kZero ? of[r].bias / (128 / kZero) : 0);
  I above = _mm512_loadu_si512(w + 256), below = _mm512_slli_epi16(above, 4);
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const I both = _mm512_loadu_si512(w + 64 * g);
    const I w0 = _mm512_ternarylogic_epi32(_mm512_and_si512(both, low), below, fifth, kOrAnd);
    const I w1 = _mm512_ternarylogic_epi32(_mm512_and_si512(_mm512_srli_epi16(both, 4), low), above,
                                           fifth, kOrAnd);
    below = _mm512_srli_epi16(below, 1);
    above = _mm512_srli_epi16(above, 1);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      acc[r] = add_products(acc[r], w0, x + 32 * r + 4 * g);
      acc[r] = add_products(acc[r], w1, x + 32 * r + 4 * g + 16);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) isum[r] = _mm512_cvtepi32_ps(acc[r]);
}

constexpr float kSixBitUnit = 0.25f;  // what one in the sums of tile_dot_6bit() is worth

// Of 16 k of a block of 6 bits, 192 bytes at w: 4 q in the upper bits of bytes, which bias makes
// 4 (q - 32).
template <int R, int kHalf>
inline void half_dot_6bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  const I a = _mm512_loadu_si512(w), b = _mm512_loadu_si512(w + 64),
          c = _mm512_loadu_si512(w + 128);
  const I upper = _mm512_set1_epi8(-4), third = _mm512_set1_epi8(0x30);
  const I fourth = _mm512_set1_epi8(0x0c), top = _mm512_set1_epi8(-64);
  constexpr int kOrAnd = 0xf8;  // first | (second & third)
  I last = _mm512_and_si512(_mm512_slli_epi16(a, 6), top);
  last = _mm512_ternarylogic_epi32(last, _mm512_slli_epi16(b, 4), third, kOrAnd);
  last = _mm512_ternarylogic_epi32(last, _mm512_slli_epi16(c, 2), fourth, kOrAnd);
  const I groups[4] = {_mm512_and_si512(a, upper), _mm512_and_si512(b, upper),
                       _mm512_and_si512(c, upper), last};
  I acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = _mm512_set1_epi32(of[r].half_bias[kHalf]);
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = add_products(acc[r], groups[g], x + 32 * r + 4 * g);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) isum[r] = _mm512_cvtepi32_ps(acc[r]);
}

// The products of each 16 k of a block of 6 bits, in kSixBitUnit.
template <int R>
inline void tile_dot_6bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* first16,
                          V* second16) {
  prefetch_weights<R, 6>(w);
  half_dot_6bit<R, 0>(w, x, of, first16);
  half_dot_6bit<R, 1>(w + 192, x + 16, of, second16);
}

// Exact dot product of 32 signed bytes; x is within +-127, w any.
inline int32_t block_dot(const int8_t* w, const int8_t* x) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  const __m256i zeros = _mm256_setzero_si256();
  const __m256i s = _mm256_dpbusd_epi32(zeros, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}

}  // namespace
}  // namespace specbound
