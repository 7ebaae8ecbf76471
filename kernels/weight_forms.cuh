// All that kernels know of a quantization: its form of TilesI8 as a lane reads it, a lane's part of
// a block of 32 k of a tile, widened to the operand of mma_16x8x32, and the factors of the block's
// sums (numerics/int8_formula.h); and a single element, as a file holds it.
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

// Calls act(Form{}) with the form of a type.
template <class Act>
SPECBOUND_DEVICE void as_form(DType type, const Act& act) {
  if (type == DType::kQ4_0) {
    act(FormQ4_0{});
  } else if (type == DType::kQ4_K) {
    act(FormQ4_K{});
  } else {
    act(FormQ8_0{});
  }
}

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
  SB_CHECK(takes_int8_rows(w.type) && int8_form(w.type) == w.type);
  SB_CHECK(w.n_out >= 1 && w.n_in >= kQuantBlock);
  SB_CHECK(w.n_in % static_cast<int>(dtype_info(w.type)->block) == 0);
  SB_CHECK(aligned(w.q, 16) && aligned(w.d, 4) && (!form_has_mins(w.type) || aligned(w.d2, 8)));
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

// ---- one element, as a file holds it: the bits of model/codec.cpp, a block at a time there ----

// Element i of a block, of which `low` has four bits: i below in a byte, i + 16 above.
SPECBOUND_DEVICE int four_bits(const uint8_t* low, int i) {
  return i < 16 ? low[i] & 15 : low[i - 16] >> 4;
}
// .. and `high` a fifth, in the order of elements.
SPECBOUND_DEVICE int five_bits(const uint8_t* low, const uint8_t* high, int i) {
  return four_bits(low, i) | ((high[i / 8] >> (i % 8)) & 1) << 4;
}
// Element i of 256, two bits each: of each half byte j holds elements j, j + 32, j + 64, j + 96.
SPECBOUND_DEVICE int two_bits(const uint8_t* q, int i) {
  return (q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
}
// Element i of 256, four bits each: of each quarter byte j holds elements j and j + 32.
SPECBOUND_DEVICE int nibble(const uint8_t* q, int i) {
  return (q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

SPECBOUND_DEVICE float value_of(const BlockQ8_0& b, int i) {
  return half_float(b.d) * static_cast<float>(b.q[i]);
}
SPECBOUND_DEVICE float value_of(const BlockQ4_0& b, int i) {
  return half_float(b.d) * static_cast<float>(four_bits(b.q, i) - 8);
}
SPECBOUND_DEVICE float value_of(const BlockQ4_1& b, int i) {
  return half_float(b.d) * static_cast<float>(four_bits(b.q, i)) + half_float(b.m);
}
SPECBOUND_DEVICE float value_of(const BlockQ5_0& b, int i) {
  return half_float(b.d) * static_cast<float>(five_bits(b.q, b.high, i) - 16);
}
SPECBOUND_DEVICE float value_of(const BlockQ5_1& b, int i) {
  return half_float(b.d) * static_cast<float>(five_bits(b.q, b.high, i)) + half_float(b.m);
}
SPECBOUND_DEVICE float value_of(const BlockQ2_K& b, int i) {
  const int packed = b.scales[i / 16];
  const float scale = half_float(b.d) * static_cast<float>(packed & 15);
  const float min = half_float(b.dmin) * static_cast<float>(packed >> 4);
  return scale * static_cast<float>(two_bits(b.q, i)) - min;
}
SPECBOUND_DEVICE float value_of(const BlockQ3_K& b, int i) {
  const int part = i / 16;
  const int low = (b.scales[part % 8] >> (part / 8 * 4)) & 15;
  const int high = (b.scales[8 + part % 4] >> (part / 4 * 2)) & 3;
  const float scale = half_float(b.d) * static_cast<float>((low | high << 4) - 32);
  const int third = (b.high[i % 32] >> (i / 32)) & 1;
  return scale * static_cast<float>((two_bits(b.q, i) | third << 2) - 4);
}
SPECBOUND_DEVICE float value_of(const BlockQ4_K& b, int i) {
  const Q4KScale packed = q4_k_scale(b, i / 32);
  const float scale = half_float(b.d) * static_cast<float>(packed.scale);
  const float min = half_float(b.dmin) * static_cast<float>(packed.min);
  return scale * static_cast<float>(nibble(b.q, i)) - min;
}
SPECBOUND_DEVICE float value_of(const BlockQ5_K& b, int i) {
  const Q4KScale packed = q4_k_scale(b.scales, i / 32);
  const float scale = half_float(b.d) * static_cast<float>(packed.scale);
  const float min = half_float(b.dmin) * static_cast<float>(packed.min);
  const int fifth = (b.high[i % 32] >> (i / 32)) & 1;
  return scale * static_cast<float>(nibble(b.q, i) | fifth << 4) - min;
}
SPECBOUND_DEVICE float value_of(const BlockQ6_K& b, int i) {
  const float scale = half_float(b.d) * static_cast<float>(b.scales[i / 16]);
  const int low = (b.low[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 15;
  const int high = (b.high[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
  return scale * static_cast<float>((low | high << 4) - 32);
}
SPECBOUND_DEVICE float value_of(const BlockIQ4_NL& b, int i) {
  return half_float(b.d) * static_cast<float>(iq4_nl_value(four_bits(b.q, i)));
}

template <class Block>
SPECBOUND_DEVICE float in_blocks(const void* data, size_t i, int elements) {
  return value_of(static_cast<const Block*>(data)[i / elements], static_cast<int>(i % elements));
}

// Element i of `data`, of a type that runs_as() something.
SPECBOUND_DEVICE float stored_value(DType type, const void* data, size_t i) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kF16:
      return half_float(static_cast<const uint16_t*>(data)[i]);
    case DType::kBF16:
      return float_of(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16);
    case DType::kQ8_0:
      return in_blocks<BlockQ8_0>(data, i, 32);
    case DType::kQ4_0:
      return in_blocks<BlockQ4_0>(data, i, 32);
    case DType::kQ4_1:
      return in_blocks<BlockQ4_1>(data, i, 32);
    case DType::kQ5_0:
      return in_blocks<BlockQ5_0>(data, i, 32);
    case DType::kQ5_1:
      return in_blocks<BlockQ5_1>(data, i, 32);
    case DType::kQ2_K:
      return in_blocks<BlockQ2_K>(data, i, 256);
    case DType::kQ3_K:
      return in_blocks<BlockQ3_K>(data, i, 256);
    case DType::kQ4_K:
      return in_blocks<BlockQ4_K>(data, i, 256);
    case DType::kQ5_K:
      return in_blocks<BlockQ5_K>(data, i, 256);
    case DType::kQ6_K:
      return in_blocks<BlockQ6_K>(data, i, 256);
    case DType::kIQ4_NL:
      return in_blocks<BlockIQ4_NL>(data, i, 32);
    default:
      return not_a_number();
  }
}

}  // namespace specbound::kernels
