// The INT8 products of tiles where one instruction adds four products of bytes to a lane of 32
// bits: add_products(sums, w, x), w without a sign, which is declared before this file.
#pragma once

#include "engine/cpu/tile_groups_avx2.h"

namespace specbound {
namespace {

// Sums of a tile's outputs, eight a register, for R rows.
template <int R>
struct TileSums {
  __m256i lo[R], hi[R];

  // Of all 32 k, or of one half of them.
  template <int kZero>
  [[gnu::always_inline]] void begin(const RowBlock* of) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) lo[r] = hi[r] = less_zeros<kZero>(of[r].bias);
  }
  template <int kZero>
  [[gnu::always_inline]] void begin_half(const RowBlock* of, int half) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) lo[r] = hi[r] = less_zeros<kZero>(of[r].half_bias[half]);
  }
  // x: four bytes of the first row; the others are 32 apart.
  [[gnu::always_inline]] void add(__m256i w0, __m256i w1, const int8_t* x) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i xs = broadcast4(x + 32 * r);
      lo[r] = add_products(lo[r], w0, xs);
      hi[r] = add_products(hi[r], w1, xs);
    }
  }
  [[gnu::always_inline]] void end(V* out) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) out[r] = {_mm256_cvtepi32_ps(lo[r]), _mm256_cvtepi32_ps(hi[r])};
  }
};

template <int kBits, int R, int kZero>
inline void tile_dot_few_bits(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  prefetch_weights<kBits>(w);
  TileSums<R> sums;
  sums.template begin<kZero>(of);
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) sums.add(group<kBits>(w, g, 0), group<kBits>(w, g, 1), x + 4 * g);
  sums.end(isum);
}

template <int R>
inline void tile_dot(const uint8_t* w, const int8_t* x, const RowBlock* of, V* isum) {
  tile_dot_few_bits<8, R, 128>(w, x, of, isum);
}

template <int R>
inline void tile_dot_6bit(const uint8_t* w, const int8_t* x, const RowBlock* of, V* first16,
                          V* second16) {
  prefetch_weights<6>(w);
  for (int half = 0; half < 2; ++half, w += 192, x += 16) {
    TileSums<R> sums;
    sums.template begin_half<32>(of, half);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      sums.add(six_bit_group(w, g, 0), six_bit_group(w, g, 1), x + 4 * g);
    }
    sums.end(half == 0 ? first16 : second16);
  }
}

}  // namespace
}  // namespace specbound
