// Tiles (tiles.h) as registers of eight outputs: what their products on AVX2 and on AVX-VNNI begin
// with.
#pragma once

#include "engine/cpu/simd_avx2.h"
#include "engine/cpu/tiles.h"

namespace specbound {
namespace {

// Four rows share what is unpacked of a tile. Their float sums wait in memory meanwhile: sixteen
// registers hold no more than the integer ones.
constexpr int kMaxTileRows = 4;
constexpr float kSixBitUnit = 1;

// The four bytes at p in each lane.
inline __m256i broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}

// -zero times the sum of a row's numbers, in each lane: bias is -128 times it.
template <int kZero>
[[gnu::always_inline]] inline __m256i less_zeros(int32_t bias) {
  if constexpr (kZero == 0) {
    return _mm256_setzero_si256();
  } else {
    return _mm256_srai_epi32(_mm256_set1_epi32(bias), __builtin_ctz(128 / kZero));
  }
}

// Weights of a block, `kLines` cache lines at w, that are read 8 KB from now: a core is busy with a
// line for so long that the hardware prefetcher falls behind (rows.sh).
template <int kLines>
[[gnu::always_inline]] inline void prefetch_weights(const uint8_t* w) {
#pragma GCC unroll 8
  for (int i = 0; i < kLines; ++i) _mm_prefetch(w + 8192 + 64 * i, _MM_HINT_T1);
}

inline __m256i load_line(const uint8_t* w, int line, int half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w) + 2 * line + half);
}

// Group g of the block at w, of outputs 8 half.., without a sign: four numbers of 4, 5 or (+ 128) 8
// bits a lane. Of 5 the last line holds the fifth bits, that of group g in bit g of a byte.
template <int kBits>
[[gnu::always_inline]] inline __m256i group(const uint8_t* w, int g, int half) {
  if constexpr (kBits == 8) return load_line(w, g, half);
  const __m256i both = load_line(w, g % 4, half);
  const __m256i four =
      _mm256_and_si256(g < 4 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
  if constexpr (kBits == 4) return four;
  const __m256i all = load_line(w, 4, half);
  const __m256i fifth = g < 4 ? _mm256_slli_epi16(all, 4 - g) : _mm256_srli_epi16(all, g - 4);
  return _mm256_or_si256(four, _mm256_and_si256(fifth, _mm256_set1_epi8(16)));
}

// Group g of the four of 6 bits at w, of 16 k.
[[gnu::always_inline]] inline __m256i six_bit_group(const uint8_t* w, int g, int half) {
  const auto lower = [&](int line) {
    const __m256i two = _mm256_and_si256(load_line(w, line, half), _mm256_set1_epi8(3));
    return _mm256_slli_epi16(two, 4 - 2 * line);
  };
  if (g == 3) return _mm256_or_si256(lower(0), _mm256_or_si256(lower(1), lower(2)));
  return _mm256_and_si256(_mm256_srli_epi16(load_line(w, g, half), 2), _mm256_set1_epi8(63));
}

// isum[r] (16 outputs) = exact dot product of one block of a tile, of numbers of 4 or 5 bits less
// kZero each (0 or half of their range), with row r: 32 bytes at x + 32 r.
template <int kBits, int R, int kZero>
inline void tile_dot_few_bits(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum);

template <int R, int kZero>
inline void tile_dot_4bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  tile_dot_few_bits<4, R, kZero>(w, x, of, isum);
}

template <int R, int kZero>
inline void tile_dot_5bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  tile_dot_few_bits<5, R, kZero>(w, x, of, isum);
}

}  // namespace
}  // namespace specbound
