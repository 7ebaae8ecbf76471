// The INT8 products of tiles on AVX2, which has pairs of bytes multiplied into 16 bits.
#pragma once

#include "engine/cpu/tile_groups_avx2.h"

namespace specbound {
namespace {

// sum += products, here and now: compilers rearrange sums of integers, and then more values are
// alive at once than registers hold.
[[gnu::always_inline]] inline void accumulate16(__m256i& sum, __m256i products) {
  sum = _mm256_add_epi16(sum, products);
  asm("" : "+x"(sum));
}
[[gnu::always_inline]] inline void accumulate32(__m256i& sum, __m256i products) {
  sum = _mm256_add_epi32(sum, products);
  asm("" : "+x"(sum));
}

template <int R>
inline void tile_dot(const uint8_t* w, const int8_t* x, const RowBlock*, V* isum) {
  prefetch_weights<8>(w);
  const __m256i flip = _mm256_set1_epi8(-128);  // tiles hold w + 128
  __m256i lo[R], hi[R];
  for (int r = 0; r < R; ++r) lo[r] = hi[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    const __m256i w0 = _mm256_xor_si256(group<8>(w, g, 0), flip);
    const __m256i w1 = _mm256_xor_si256(group<8>(w, g, 1), flip);
    for (int r = 0; r < R; ++r) {
      const __m256i xs = broadcast4(x + 32 * r + 4 * g);
      accumulate32(lo[r], dot4(w0, xs));
      accumulate32(hi[r], dot4(w1, xs));
    }
  }
  for (int r = 0; r < R; ++r) isum[r] = {_mm256_cvtepi32_ps(lo[r]), _mm256_cvtepi32_ps(hi[r])};
}

// Products of a lane of 16 bits stay within it, sixteen of 4 bits (16 * 15 * 127 = 30480) and eight
// of 5 (8 * 31 * 127 = 31496). Groups 0 to 3 come before the others, whose bits lie above theirs:
// registers have no room for both.
template <int kBits, int R, int kZero>
inline void tile_dot_few_bits(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  prefetch_weights<kBits>(w);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i lo[R], hi[R], first_lo[R], first_hi[R];
  for (int r = 0; r < R; ++r) {
    lo[r] = hi[r] = _mm256_setzero_si256();
    first_lo[r] = first_hi[r] = less_zeros<kZero>(of[r].bias);
  }
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    if (kBits == 5 && g == 4) {
      for (int r = 0; r < R; ++r) {
        accumulate32(first_lo[r], _mm256_madd_epi16(lo[r], ones));
        accumulate32(first_hi[r], _mm256_madd_epi16(hi[r], ones));
        lo[r] = hi[r] = _mm256_setzero_si256();
      }
    }
    const __m256i w0 = group<kBits>(w, g, 0), w1 = group<kBits>(w, g, 1);
    for (int r = 0; r < R; ++r) {
      const __m256i xs = broadcast4(x + 32 * r + 4 * g);
      accumulate16(lo[r], _mm256_maddubs_epi16(w0, xs));
      accumulate16(hi[r], _mm256_maddubs_epi16(w1, xs));
    }
  }
  for (int r = 0; r < R; ++r) {
    const __m256i a = _mm256_add_epi32(first_lo[r], _mm256_madd_epi16(lo[r], ones));
    const __m256i b = _mm256_add_epi32(first_hi[r], _mm256_madd_epi16(hi[r], ones));
    isum[r] = {_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)};
  }
}

// Of each 16 k. Two products of a lane of 16 bits stay within it: 4 * 63 * 127 = 32004.
template <int R>
inline void tile_dot_6bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* first16,
                          V* second16) {
  prefetch_weights<6>(w);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int k = 0; k < 32; k += 16, w += 192) {
    __m256i lo[R], hi[R], sum_lo[R], sum_hi[R];
    for (int r = 0; r < R; ++r) {
      sum_lo[r] = sum_hi[r] = less_zeros<32>(of[r].half_bias[k / 16]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m256i w0 = six_bit_group(w, g, 0), w1 = six_bit_group(w, g, 1);
      for (int r = 0; r < R; ++r) {
        const __m256i xs = broadcast4(x + 32 * r + k + 4 * g);
        const __m256i a = _mm256_maddubs_epi16(w0, xs), b = _mm256_maddubs_epi16(w1, xs);
        if (g % 2 == 0) {
          lo[r] = a;
          hi[r] = b;
        } else {
          accumulate32(sum_lo[r], _mm256_madd_epi16(_mm256_add_epi16(lo[r], a), ones));
          accumulate32(sum_hi[r], _mm256_madd_epi16(_mm256_add_epi16(hi[r], b), ones));
        }
      }
    }
    V* const out = k == 0 ? first16 : second16;
    for (int r = 0; r < R; ++r) {
      out[r] = {_mm256_cvtepi32_ps(sum_lo[r]), _mm256_cvtepi32_ps(sum_hi[r])};
    }
  }
}

}  // namespace
}  // namespace specbound
