// Quantizing rows and multiplying them by matrices, over what the headers before it give: a part of
// kernels_impl.h, and its rules hold here.
#pragma once

#include "engine/cpu/kernels.h"

namespace specbound {
namespace {

void quantize(const float* x, int row, int begin, int end, const QuantRows& out) {
  const int panel = row / kPanelRows, rows = out.panel_rows(panel), r = row % kPanelRows;
  const size_t first = out.panel_offset(panel) + r + static_cast<size_t>(begin) * rows;
  int8_t* q = out.q + first * kQuantBlock;
  RowBlock* block = out.blocks + first;
  for (int b = begin; b < end; ++b, x += kQuantBlock, q += rows * kQuantBlock, block += rows) {
    const V x0 = load(x), x1 = load(x + 16);
    const float amax = max_magnitude(max_bits(abs(x0), abs(x1)));
    const bool finite = amax < __builtin_inff();
    const bool live = finite && amax >= kQuantFloor;
    const V inverse = set1(live ? 127.0f / amax : 0.0f);
    int sum[2] = {};  // of each 16
    if (live) {
      sum[0] = store_int8(q, mul(x0, inverse));
      sum[1] = store_int8(q + 16, mul(x1, inverse));
    } else {
      __builtin_memset(q, 0, kQuantBlock);
    }
    const int both = sum[0] + sum[1];
    const float scale = live ? amax / 127.0f : finite ? 0.0f : __builtin_nanf("");
    *block = {
        scale, static_cast<float>(-both) * scale, -128 * both, {-128 * sum[0], -128 * sum[1]}};
  }
}

template <int R>
inline void add_scaled(const V* isum, V dw, const RowBlock* x, V* acc) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = fma(isum[r], mul(dw, set1(x[r].scale)), acc[r]);
}

template <int R>
inline void add_scaled_less_mins(const V* isum, V dw, V mw, const RowBlock* x, V* acc) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    acc[r] = fma(isum[r], mul(dw, set1(x[r].scale)), acc[r]);
    acc[r] = fma(set1(x[r].less_mins), mw, acc[r]);
  }
}

// What R rows of a panel have of a block: where QuantRows has the first of them.
struct RowBlocks {
  const int8_t* q;
  const RowBlock* of;
};

// isum[r] of block b of a tile of 8, 5 or 4 bits, whose numbers are less half of their range
// (kSigned) or as they are.
template <int kBits, bool kSigned, int R>
inline void tile_dot_of(const uint8_t* q, int b, const RowBlocks& x, V* isum) {
  constexpr int kZero = kSigned ? 1 << (kBits - 1) : 0;
  const uint8_t* block = q + static_cast<size_t>(b) * (64 * kBits);
  if constexpr (kBits == 8) {
    static_assert(kSigned);
    tile_dot<R>(block, x.q, x.of, isum);
  } else if constexpr (kBits == 4) {
    tile_dot_4bit<R, kZero>(block, x.q, x.of, isum);
  } else {
    tile_dot_5bit<R, kZero>(block, x.q, x.of, isum);
  }
}

// One tile of each kind: add_block() is what int8_formula.h says of block b for R rows.

// Q8_0, Q5_0, Q4_0
template <int kBits>
struct TileSigned {
  const uint8_t* q;
  const uint16_t* d;

  template <int R>
  void add_block(int b, const RowBlocks& x, V* acc) const {
    V isum[R];
    tile_dot_of<kBits, true, R>(q, b, x, isum);
    add_scaled<R>(isum, load_f16(d + static_cast<size_t>(b) * kTileOutputs), x.of, acc);
  }
};

// Q4_1, Q5_1
template <int kBits>
struct TileWithMins {
  const uint8_t* q;
  const uint16_t* d;

  template <int R>
  void add_block(int b, const RowBlocks& x, V* acc) const {
    V isum[R];
    tile_dot_of<kBits, false, R>(q, b, x, isum);
    const uint16_t* at = d + static_cast<size_t>(b) * (2 * kTileOutputs);
    add_scaled_less_mins<R>(isum, load_f16(at), load_f16(at + kTileOutputs), x.of, acc);
  }
};

// Block b of the super-blocks at d: what the 256 numbers share, and the block's bytes.
template <DType kForm>
struct SuperBlock {
  const uint16_t* shared;
  const uint8_t* bytes;

  SuperBlock(const uint16_t* d, int b)
      : shared(d + static_cast<size_t>(b) / TileMatrix::kSuperBlocks * TileMatrix::super_d(kForm)),
        bytes(reinterpret_cast<const uint8_t*>(shared + TileMatrix::super_halves(kForm)) +
              b % TileMatrix::kSuperBlocks * (2 * kTileOutputs)) {}
};

// Q4_K, Q5_K
template <DType kForm>
struct TileOfParts {
  const uint8_t* q;
  const uint16_t* d;

  template <int R>
  void add_block(int b, const RowBlocks& x, V* acc) const {
    V isum[R];
    tile_dot_of<bits_of_form(kForm), false, R>(q, b, x, isum);
    const SuperBlock<kForm> at(d, b);
    const V dw = mul(load_f16(at.shared), load_u8(at.bytes));
    const V mw = mul(load_f16(at.shared + kTileOutputs), load_u8(at.bytes + kTileOutputs));
    add_scaled_less_mins<R>(isum, dw, mw, x.of, acc);
  }
};

struct TileQ6_K {
  const uint8_t* q;
  const uint16_t* d;

  template <int R>
  void add_block(int b, const RowBlocks& x, V* acc) const {
    V isum[R], other[R];  // of the first 16 k, of the others
    tile_dot_6bit<R>(q + static_cast<size_t>(b) * 384, x.q, x.of, isum, other);
    const SuperBlock<DType::kQ6_K> at(d, b);
    const V unit = set1(kSixBitUnit);
    const V first = mul(load_i8(at.bytes), unit), second = mul(load_i8(at.bytes + 16), unit);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) isum[r] = fma(other[r], second, mul(isum[r], first));  // exact
    add_scaled<R>(isum, load_f16(at.shared), x.of, acc);
  }
};

// y += or = the 16 outputs of `tile` for R rows of a panel, from its row r0 on. A function of its
// own for each R: inlined side by side they take each other's registers.
template <int R, class Tile>
[[gnu::noinline]] void tile_times_rows(const TileMatrix& w, int tile, const QuantRows& x, int panel,
                                       int r0, float* y, int ldy, bool accumulate) {
  const Tile weights{w.q + tile * w.tile_q(), w.d + tile * w.tile_d()};
  const int rows = x.panel_rows(panel);
  const size_t first_row = x.panel_offset(panel) + r0;
  const RowBlocks all{x.q + first_row * kQuantBlock, x.blocks + first_row};
  V total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = zero();
  const int chunks = k_chunks(w.n_in);
  for (int c = 0; c < chunks; ++c) {
    V acc[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = zero();
    const int end = k_chunk_begin(w.n_in, c + 1);
    for (int b = k_chunk_begin(w.n_in, c); b < end; ++b) {
      const size_t at = static_cast<size_t>(b) * rows;
      weights.template add_block<R>(b, {all.q + at * kQuantBlock, all.of + at}, acc);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = add(total[r], acc[r]);
  }
  const int n = w.n_out - tile * kTileOutputs;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* out = y + static_cast<size_t>(panel * kPanelRows + r0 + r) * ldy + tile * kTileOutputs;
    if (n >= kTileOutputs) {
      store(out, accumulate ? add(load(out), total[r]) : total[r]);
    } else {
      store_n(out, accumulate ? add(load_n(out, n), total[r]) : total[r], n);
    }
  }
}

template <class Tile>
void matmul_tiles_of(const TileMatrix& w, const QuantRows& x, float* y, int ldy, bool accumulate) {
  for (int tile = 0; tile < w.n_tiles(); ++tile) {
    for (int panel = 0; panel < x.n_panels(); ++panel) {
      const int rows = x.panel_rows(panel);
      for (int r = 0; r < rows; r += kMaxTileRows) {
        const int n = rows - r < kMaxTileRows ? rows - r : kMaxTileRows;
        switch (n) {
#define SPECBOUND_CASE(R)                                                 \
  case R:                                                                 \
    if constexpr (R <= kMaxTileRows) {                                    \
      tile_times_rows<R, Tile>(w, tile, x, panel, r, y, ldy, accumulate); \
    }                                                                     \
    break;
          SPECBOUND_CASE(1)
          SPECBOUND_CASE(2)
          SPECBOUND_CASE(3)
          SPECBOUND_CASE(4)
          SPECBOUND_CASE(5)
          SPECBOUND_CASE(6)
          SPECBOUND_CASE(7)
          SPECBOUND_CASE(8)
#undef SPECBOUND_CASE
        }
      }
    }
  }
}

void matmul_tiles(const TileMatrix& w, const QuantRows& x, float* y, int ldy, bool accumulate) {
  if (w.type == DType::kQ8_0) {
    matmul_tiles_of<TileSigned<8>>(w, x, y, ldy, accumulate);
  } else if (w.type == DType::kQ4_0) {
    matmul_tiles_of<TileSigned<4>>(w, x, y, ldy, accumulate);
  } else if (w.type == DType::kQ4_1) {
    matmul_tiles_of<TileWithMins<4>>(w, x, y, ldy, accumulate);
  } else if (w.type == DType::kQ4_K) {
    matmul_tiles_of<TileOfParts<DType::kQ4_K>>(w, x, y, ldy, accumulate);
  } else if (w.type == DType::kQ5_0) {
    matmul_tiles_of<TileSigned<5>>(w, x, y, ldy, accumulate);
  } else if (w.type == DType::kQ5_1) {
    matmul_tiles_of<TileWithMins<5>>(w, x, y, ldy, accumulate);
  } else if (w.type == DType::kQ5_K) {
    matmul_tiles_of<TileOfParts<DType::kQ5_K>>(w, x, y, ldy, accumulate);
  } else {
    matmul_tiles_of<TileQ6_K>(w, x, y, ldy, accumulate);
  }
}

void matmul_q8_0(const Matrix& w, int begin, int end, const QuantRows& x, float* y, int ldy,
                 bool accumulate) {
  const int n_blocks = x.n_blocks(), chunks = k_chunks(w.n_in);
  const auto* blocks = reinterpret_cast<const BlockQ8_0*>(w.data);
  for (int out = begin; out < end; ++out) {
    const BlockQ8_0* row = blocks + static_cast<size_t>(out) * n_blocks;
    for (int i = 0; i < x.n_rows; ++i) {
      const int panel = i / kPanelRows, rows = x.panel_rows(panel);
      const size_t first = x.panel_offset(panel) + i % kPanelRows;
      float total = 0;
      for (int c = 0; c < chunks; ++c) {
        float acc = 0;
        const int last = k_chunk_begin(w.n_in, c + 1);
        for (int b = k_chunk_begin(w.n_in, c); b < last; ++b) {
          const size_t at = first + static_cast<size_t>(b) * rows;
          const int32_t isum = block_dot(row[b].q, x.q + at * kQuantBlock);
          const float scale = half_scalar(row[b].d) * x.blocks[at].scale;
          acc = __builtin_fmaf(static_cast<float>(isum), scale, acc);
        }
        total += acc;
      }
      float& target = y[static_cast<size_t>(i) * ldy + out - begin];
      target = accumulate ? target + total : total;
    }
  }
}

// 16 weights as floats from element k on, however they are stored; the _n form ends with zeros.
struct WeightsF32 {
  const float* p;
  V at(int k) const { return load(p + k); }
  V at_n(int k, int n) const { return load_n(p + k, n); }
};
struct WeightsF16 {
  const uint16_t* p;
  V at(int k) const { return load_f16(p + k); }
  V at_n(int k, int n) const { return load_f16_n(p + k, n); }
};
struct WeightsBF16 {
  const uint16_t* p;
  V at(int k) const { return load_bf16(p + k); }
  V at_n(int k, int n) const { return load_bf16_n(p + k, n); }
};

// y[r] = dot(w, x[r]) for R rows, K padded with zeros to a multiple of 32.
template <int R, class W>
inline void dot_rows(W w, int n, const float* x, int ldx, float* y) {
  V lo[R], hi[R];
  for (int r = 0; r < R; ++r) lo[r] = hi[r] = zero();
  int k = 0;
  for (; k + 32 <= n; k += 32) {
    const V a = w.at(k), b = w.at(k + 16);
    for (int r = 0; r < R; ++r) {
      const float* xr = x + static_cast<size_t>(r) * ldx + k;
      lo[r] = fma(a, load(xr), lo[r]);
      hi[r] = fma(b, load(xr + 16), hi[r]);
    }
  }
  if (k < n) {
    const int left = n - k;
    const V a = w.at_n(k, left < 16 ? left : 16);
    const V b = w.at_n(k + 16, left > 16 ? left - 16 : 0);
    for (int r = 0; r < R; ++r) {
      const float* xr = x + static_cast<size_t>(r) * ldx + k;
      lo[r] = fma(a, load(xr), lo[r]);
      hi[r] = fma(b, load(xr + 16), hi[r]);
    }
  }
  for (int r = 0; r < R; ++r) y[r] = sum(add(lo[r], hi[r]));
}

template <class W, class T>
void matmul_float_as(const Matrix& w, int begin, int end, const float* x, int ldx, int n_rows,
                     float* y, int ldy, bool accumulate) {
  constexpr int kRows = kMaxTileRows < 4 ? 4 : kMaxTileRows;
  for (int out = begin; out < end; ++out) {
    const W row{reinterpret_cast<const T*>(w.data) + static_cast<size_t>(out) * w.n_in};
    for (int r = 0; r < n_rows; r += kRows) {
      const int n = n_rows - r < kRows ? n_rows - r : kRows;
      const float* xr = x + static_cast<size_t>(r) * ldx;
      float sums[kRows];
      if (n == kRows) {
        dot_rows<kRows>(row, w.n_in, xr, ldx, sums);
      } else {
        for (int i = 0; i < n; ++i) {
          dot_rows<1>(row, w.n_in, xr + static_cast<size_t>(i) * ldx, ldx, sums + i);
        }
      }
      for (int i = 0; i < n; ++i) {
        float& target = y[static_cast<size_t>(r + i) * ldy + out - begin];
        target = accumulate ? target + sums[i] : sums[i];
      }
    }
  }
}

void matmul_float(const Matrix& w, int begin, int end, const float* x, int ldx, int n_rows,
                  float* y, int ldy, bool accumulate) {
  if (w.type == DType::kF32) {
    matmul_float_as<WeightsF32, float>(w, begin, end, x, ldx, n_rows, y, ldy, accumulate);
  } else if (w.type == DType::kF16) {
    matmul_float_as<WeightsF16, uint16_t>(w, begin, end, x, ldx, n_rows, y, ldy, accumulate);
  } else {
    matmul_float_as<WeightsBF16, uint16_t>(w, begin, end, x, ldx, n_rows, y, ldy, accumulate);
  }
}

}  // namespace
}  // namespace specbound
