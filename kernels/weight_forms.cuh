// The forms of TilesI8, as a lane reads them: its part of a block of 32 k of a tile, widened to the
// operand of mma_16x8x32, and the factors of the block's sums (engine/int8_formula.h).
//
// Integer sums start at the bits of a float, kStart, whose last place is worth one of them: as long
// as they are less than 2^22 in magnitude, they are floats as they are.
#pragma once

#include "launch.cuh"
#include "layouts.h"

namespace specbound::kernels {

inline constexpr float kOnes = 12582912.0f;      // 1.5 * 2^23: the last place is worth 1
inline constexpr float kSixteenths = 786432.0f;  // 1.5 * 2^19: it is worth 1/16

// Of outputs g and g + 8: dw, and mw where there are mins.
struct BlockFactors {
  float dw[2], mw[2];
};

// Two FP16 numbers that lie in one word.
SPECBOUND_DEVICE float lower_half(uint32_t word) {
  return half_float(static_cast<uint16_t>(word));
}
SPECBOUND_DEVICE float upper_half(uint32_t word) {
  return half_float(static_cast<uint16_t>(word >> 16));
}

struct FormQ8_0 {
  using Values = Word4;
  using Scales = uint32_t;
  static constexpr bool kHasMins = false;
  static constexpr float kStart = kOnes;
  static constexpr float kUnit = 1;  // of one in the operand
  static constexpr int kAhead = 4;   // blocks on their way while one is computed

  // `d`, `d2`: of output g, in the block and in the first 256 k of the tile; d2 is Q4_K's.
  SPECBOUND_DEVICE static Scales load(bool wanted, const uint32_t* d, const Word2*, int) {
    return load_once_if(wanted, d);
  }
  SPECBOUND_DEVICE static Word4 operand(const Values& v) { return v; }
  SPECBOUND_DEVICE static BlockFactors factors(Scales d) {
    return {{lower_half(d), upper_half(d)}, {}};
  }
};

// Of eight bytes, the lower nibbles and the upper ones: words of outputs g and g + 8, k 8t and on,
// then k 8t + 4 and on.
struct FormQ4_0 {
  using Values = Word2;
  using Scales = uint32_t;
  static constexpr bool kHasMins = false;
  static constexpr float kStart = kSixteenths;
  static constexpr float kUnit = 0.0625f;
  static constexpr int kAhead = 4;

  SPECBOUND_DEVICE static Scales load(bool wanted, const uint32_t* d, const Word2*, int) {
    return load_once_if(wanted, d);
  }
  // 16 (q - 8): a nibble less 8 is itself with its top bit turned, and in the upper half of a byte
  // it has its sign.
  SPECBOUND_DEVICE static Word4 operand(const Values& v) {
    constexpr uint32_t kTops = 0x88888888, kUpper = 0xf0f0f0f0;
    const uint32_t x = v.x ^ kTops, y = v.y ^ kTops;
    return {(x << 4) & kUpper, (y << 4) & kUpper, x & kUpper, y & kUpper};
  }
  SPECBOUND_DEVICE static BlockFactors factors(Scales d) {
    return {{lower_half(d), upper_half(d)}, {}};
  }
};

struct FormQ4_K {
  using Values = Word2;
  struct Scales {
    uint32_t parts;  // scale, min of output g, then of g + 8: a byte each
    Word2 d2;        // d and dmin of output g, then of g + 8
  };
  static constexpr bool kHasMins = true;
  static constexpr float kStart = kOnes;
  static constexpr float kUnit = 1;
  static constexpr int kAhead = 3;  // with 4 there are not enough registers

  SPECBOUND_DEVICE static Scales load(bool wanted, const uint32_t* d, const Word2* d2, int block) {
    return {load_once_if(wanted, d), load_if(wanted, d2 + block / kPartsOf256 * kPanelRows)};
  }
  SPECBOUND_DEVICE static Word4 operand(const Values& v) {
    constexpr uint32_t kLower = 0x0f0f0f0f;
    return {v.x & kLower, v.y & kLower, (v.x >> 4) & kLower, (v.y >> 4) & kLower};
  }
  SPECBOUND_DEVICE static BlockFactors factors(const Scales& s) {
    return {{lower_half(s.d2.x) * byte(s.parts, 0), lower_half(s.d2.y) * byte(s.parts, 2)},
            {upper_half(s.d2.x) * byte(s.parts, 1), upper_half(s.d2.y) * byte(s.parts, 3)}};
  }

 private:
  // As the last places of 2^23.
  SPECBOUND_DEVICE static float byte(uint32_t word, int i) {
    return float_of(0x4b000000u | ((word >> (8 * i)) & 0xffu)) - 8388608.0f;
  }
};

// Q4_K's d and dmin of this lane's outputs, from the first 256 k of a tile on; else null.
template <class Form>
SPECBOUND_DEVICE const Word2* d2_of_tile(const TilesI8& w, int tile) {
  if (!Form::kHasMins) return nullptr;
  const size_t n = static_cast<size_t>(w.n_in / kQuantBlock / kPartsOf256);
  return reinterpret_cast<const Word2*>(w.d2) + tile * n * 8 + lane_index() / 4;
}

// Models of Q8_0 alone have kernels of their own, without what other forms need and the registers
// that it takes.
SPECBOUND_DEVICE void let_be_q8_0(TilesI8& w) {
  w.type = DType::kQ8_0;
}

// For launchers: tiles of a form that there is.
inline void check_tiles(const TilesI8& w) {
  const bool q4_k = w.type == DType::kQ4_K;
  SB_CHECK(q4_k || w.type == DType::kQ8_0 || w.type == DType::kQ4_0);
  SB_CHECK(w.n_out >= 1 && w.n_in >= kQuantBlock);
  SB_CHECK(w.n_in % (q4_k ? kPartsOf256 * kQuantBlock : kQuantBlock) == 0);
  SB_CHECK(aligned(w.q, 16) && aligned(w.d, 4) && (!q4_k || aligned(w.d2, 8)));
}

// What a block's sums start at, and their values.
template <class Form>
SPECBOUND_DEVICE void start_sums(int32_t (&sum)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = static_cast<int32_t>(bits_of(Form::kStart));
}

// c (of one tile and panel) += the exact integer sums of a block, scaled; less the mins, where
// `less_sums` is -xsum of the rows 2t and 2t + 1.
template <class Form>
SPECBOUND_DEVICE void add_block(const Word4& weights, const BlockFactors& of, const Word2& x,
                                const Word2& dx, const Float2& less_sums, float (&acc)[4]) {
  int32_t sum[4];
  start_sums<Form>(sum);
  mma_16x8x32(sum, weights, x);
  const float dx_of[2] = {float_of(dx.x), float_of(dx.y)};
  [[maybe_unused]] const float less[2] = {less_sums.x, less_sums.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float isum = float_of(static_cast<uint32_t>(sum[i])) - Form::kStart;
    acc[i] = fused(isum, of.dw[i / 2] * dx_of[i % 2], acc[i]);
    if constexpr (Form::kHasMins) {
      acc[i] = fused(less[i % 2], of.mw[i / 2] * dx_of[i % 2], acc[i]);
    }
  }
}

// -xsum of rows 2t and 2t + 1 of a panel's block, exact: a product with ones.
SPECBOUND_DEVICE Float2 less_row_sums(const Word2& x) {
  constexpr uint32_t kOne = 0x01010101;
  int32_t sum[4];
  start_sums<FormQ8_0>(sum);
  mma_16x8x32(sum, Word4{kOne, kOne, kOne, kOne}, x);
  return {kOnes - float_of(static_cast<uint32_t>(sum[0])),
          kOnes - float_of(static_cast<uint32_t>(sum[1]))};
}

}  // namespace specbound::kernels
