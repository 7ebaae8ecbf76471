// All that kernels know of a quantization: its form of TilesI8 as a lane reads it, a lane's part of
// a block of 32 k of a tile, widened to the operand of mma_16x8x32, and the factors of the block's
// sums (numerics/int8_formula.h); and a single element, as a file holds it.
//
// Integer sums start at the bits of a float, kStart, whose last place is worth one of them: as long
// as they are less than 2^22 in magnitude, they are floats as they are.
#pragma once

#include <type_traits>

#include "launch.cuh"
#include "layouts.h"

namespace specbound::kernels {

inline constexpr float kOnes = 12582912.0f;      // 1.5 * 2^23: the last place is worth 1
inline constexpr float kQuarters = 3145728.0f;   // 1.5 * 2^21: it is worth 1/4
inline constexpr float kEighths = 1572864.0f;    // 1.5 * 2^20: it is worth 1/8
inline constexpr float kSixteenths = 786432.0f;  // 1.5 * 2^19: it is worth 1/16

// Of outputs g and g + 8: dw, and mw where there are mins; where each 16 k have a scale, those of
// g, then those of g + 8: a byte each, since floats of them would take too many registers.
struct BlockFactors {
  float dw[2], mw[2] = {};
  uint32_t parts = 0;
};

// Two FP16 numbers that lie in one word.
SPECBOUND_DEVICE float lower_half(uint32_t word) {
  return half_float(static_cast<uint16_t>(word));
}
SPECBOUND_DEVICE float upper_half(uint32_t word) {
  return half_float(static_cast<uint16_t>(word >> 16));
}

// How far from the first of a tile's lies what 256 k share of an output, by a block of theirs: they
// have eight outputs each. Unsigned, so that it is one instruction.
SPECBOUND_DEVICE unsigned of_256(int block) {
  return static_cast<unsigned>(block) / kPartsOf256 * kPanelRows;
}

// Byte i of a word, as the last places of 2^23.
SPECBOUND_DEVICE float byte_of(uint32_t word, int i) {
  return float_of(last_places_of_byte(word, i)) - 8388608.0f;
}
SPECBOUND_DEVICE float signed_byte_of(uint32_t word, int i) {
  return float_of(last_places_of_byte(word, i) ^ 0x80u) - 8388736.0f;
}

struct FormQ8_0 {
  using Values = Word4;   // a lane's of a block
  using Stored = Values;  // in memory
  using Scales = uint32_t;
  static constexpr bool kHasMins = false, kHasHalves = false, kBy256 = false;
  static constexpr int kD2Words = 0;
  static constexpr float kStart = kOnes;
  static constexpr float kUnit = 1;  // of one in the operand
  static constexpr int kAhead = 4;   // blocks on their way while one is computed

  // `d`, `d2`: of output g, in the block and from the first of the tile on; d2 where there is one.
  SPECBOUND_DEVICE static void load(bool wanted, const uint32_t* d, const uint32_t*, int,
                                    Scales& to) {
    load_once_if(wanted, d, to);
  }
  SPECBOUND_DEVICE static Word4 operand(const Values& v) { return v; }
  SPECBOUND_DEVICE static BlockFactors factors(Scales d) {
    return {{lower_half(d), upper_half(d)}};
  }
};

SPECBOUND_DEVICE Word4 nibbles_of(const Word2& v) {
  constexpr uint32_t kLower = 0x0f0f0f0f;
  return {v.x & kLower, v.y & kLower, (v.x >> 4) & kLower, (v.y >> 4) & kLower};
}

// Of eight bytes, the lower nibbles and the upper ones: words of outputs g and g + 8, k 8t and on,
// then k 8t + 4 and on.
struct FormQ4_0 : FormQ8_0 {
  using Values = Word2;
  using Stored = Values;
  static constexpr float kStart = kSixteenths;
  static constexpr float kUnit = 0.0625f;
  static constexpr int kAhead = 3;

  // 16 (q - 8): a nibble less 8 is itself with its top bit turned, and in the upper half of a byte
  // it has its sign.
  SPECBOUND_DEVICE static Word4 operand(const Values& v) {
    constexpr uint32_t kTops = 0x88888888, kUpper = 0xf0f0f0f0;
    const uint32_t x = v.x ^ kTops, y = v.y ^ kTops;
    return {(x << 4) & kUpper, (y << 4) & kUpper, x & kUpper, y & kUpper};
  }
};

struct FormQ4_1 {
  using Values = Word2;
  using Stored = Values;
  struct Scales {
    uint32_t d, min;  // of output g below, of g + 8 above
  };
  static constexpr bool kHasMins = true, kHasHalves = false, kBy256 = false;
  static constexpr int kD2Words = 1, kD2Blocks = 1;
  static constexpr float kStart = kOnes;
  static constexpr float kUnit = 1;
  static constexpr int kAhead = 3;

  SPECBOUND_DEVICE static void load(bool wanted, const uint32_t* d, const uint32_t* d2, int block,
                                    Scales& to) {
    load_once_if(wanted, d, to.d);
    load_once_if(wanted, d2 + block * kPanelRows, to.min);
  }
  SPECBOUND_DEVICE static Word4 operand(const Values& v) { return nibbles_of(v); }
  SPECBOUND_DEVICE static BlockFactors factors(const Scales& s) {
    return {{lower_half(s.d), upper_half(s.d)}, {lower_half(s.min), upper_half(s.min)}};
  }
};

struct FormQ4_K {
  using Values = Word2;
  using Stored = Values;
  struct Scales {
    uint32_t parts;  // scale, min of output g, then of g + 8: a byte each
    Word2 d2;        // d and dmin of output g, then of g + 8
  };
  static constexpr bool kHasMins = true, kHasHalves = false, kBy256 = false;
  static constexpr int kD2Words = 2, kD2Blocks = kPartsOf256;
  static constexpr float kStart = kOnes;
  static constexpr float kUnit = 1;
  static constexpr int kAhead = 3;  // with 4 there are not enough registers

  SPECBOUND_DEVICE static void load(bool wanted, const uint32_t* d, const uint32_t* d2, int block,
                                    Scales& to) {
    load_once_if(wanted, d, to.parts);
    load_d2(wanted, d2, block, to.d2);
  }
  SPECBOUND_DEVICE static void load_d2(bool wanted, const uint32_t* d2, int block, Word2& to) {
    load_if(wanted, reinterpret_cast<const Word2*>(d2) + of_256(block), to);
  }
  SPECBOUND_DEVICE static Word4 operand(const Values& v) { return nibbles_of(v); }
  SPECBOUND_DEVICE static BlockFactors factors(const Scales& s) {
    return factors(s.parts, floats_of(s.d2));
  }
  // d and dmin of output g, then of g + 8.
  SPECBOUND_DEVICE static Float4 floats_of(const Word2& d2) {
    return {lower_half(d2.x), upper_half(d2.x), lower_half(d2.y), upper_half(d2.y)};
  }
  SPECBOUND_DEVICE static BlockFactors factors(uint32_t parts, const Float4& of) {
    return {{of.x * byte_of(parts, 0), of.z * byte_of(parts, 2)},
            {of.y * byte_of(parts, 1), of.w * byte_of(parts, 3)}};
  }
};

// The same for a loop that takes 256 k a turn: d and dmin are read and widened once for all eight
// blocks, which leaves registers for a fourth one on its way.
struct FormQ4_KBy256 : FormQ4_K {
  using Scales = uint32_t;  // parts
  static constexpr bool kBy256 = true;
  static constexpr int kAhead = 4;

  SPECBOUND_DEVICE static void load(bool wanted, const uint32_t* d, const uint32_t*, int,
                                    Scales& to) {
    load_once_if(wanted, d, to);
  }
};
// A form as a loop of one panel of rows reads it, where it has the registers.
template <class Form, bool kRoom>
using By256 = std::conditional_t<std::is_same_v<Form, FormQ4_K> && kRoom, FormQ4_KBy256, Form>;

// A lane's numbers of 5 bits in a block. In memory four bits of all lanes come first, as those of
// Q4_0, then words that two lanes share: of the even one bit 8 j + i is the fifth bit of byte j of
// word i of its operand, of the odd one 8 j + 4 + i. A lane is at its first four bits.
struct FiveBitLane {
  Word2 four;
  uint32_t fifths;
};
struct StoredFiveBits {
  uint16_t of_lane[5];  // in the mean
};
SPECBOUND_DEVICE void load_once_if(bool wanted, const StoredFiveBits* p, FiveBitLane& v) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(p);
  const int lane = lane_index();
  load_once_if(wanted, reinterpret_cast<const Word2*>(bytes), v.four);
  const auto* fifths = reinterpret_cast<const uint32_t*>(bytes + kWarp * 8 - lane * 8) + lane / 2;
  load_once_if(wanted, fifths, v.fifths);
  v.fifths >>= lane % 2 * 4;  // where none was wanted nobody uses it
}

// Five bits as they are.
SPECBOUND_DEVICE Word4 fives_of(const FiveBitLane& v) {
  constexpr uint32_t kLower = 0x0f0f0f0f, kFifth = 0x10101010;
  return {(v.four.x & kLower) | ((v.fifths << 4) & kFifth),
          (v.four.y & kLower) | ((v.fifths << 3) & kFifth),
          ((v.four.x >> 4) & kLower) | ((v.fifths << 2) & kFifth),
          ((v.four.y >> 4) & kLower) | ((v.fifths << 1) & kFifth)};
}

struct FormQ5_0 : FormQ8_0 {
  using Values = FiveBitLane;
  using Stored = StoredFiveBits;
  static constexpr float kStart = kEighths;
  static constexpr float kUnit = 0.125f;
  static constexpr int kAhead = 3;

  // 8 (q - 16): in the upper bits of a byte five bits have their sign, once the first is turned.
  SPECBOUND_DEVICE static Word4 operand(const Values& v) {
    constexpr uint32_t kLower = 0x78787878, kTops = 0x80808080;
    const uint32_t fifths = ~v.fifths;
    return {((v.four.x << 3) & kLower) | ((fifths << 7) & kTops),
            ((v.four.y << 3) & kLower) | ((fifths << 6) & kTops),
            ((v.four.x >> 1) & kLower) | ((fifths << 5) & kTops),
            ((v.four.y >> 1) & kLower) | ((fifths << 4) & kTops)};
  }
};

struct FormQ5_1 : FormQ4_1 {
  using Values = FiveBitLane;
  using Stored = StoredFiveBits;

  SPECBOUND_DEVICE static Word4 operand(const Values& v) { return fives_of(v); }
};

struct FormQ5_K : FormQ4_K {
  using Values = FiveBitLane;
  using Stored = StoredFiveBits;
  static constexpr int kAhead = 2;  // with 3 there are not enough registers on sm_90

  SPECBOUND_DEVICE static Word4 operand(const Values& v) { return fives_of(v); }
};

// A lane's numbers of 6 bits in a block: six_bit_words() of its four words. In memory the first
// words of all lanes come first, then the second ones, then the third; p is a lane's first.
struct SixBitLane {
  uint32_t x, y, z;
};
SPECBOUND_DEVICE void load_once_if(bool wanted, const SixBitLane* p, SixBitLane& v) {
  const auto* words = reinterpret_cast<const uint32_t*>(p);
  load_once_if(wanted, words, v.x);
  load_once_if(wanted, words + kWarp, v.y);
  load_once_if(wanted, words + 2 * kWarp, v.z);
}

struct FormQ6_K {
  using Values = SixBitLane;
  using Stored = Values;
  struct Scales {
    uint32_t parts;  // of output g the scales of the first 16 k and of the others, then of g + 8
    uint32_t d;      // of output g below, of g + 8 above
  };
  static constexpr bool kHasMins = false, kHasHalves = true, kBy256 = false;
  static constexpr int kD2Words = 1, kD2Blocks = kPartsOf256;
  static constexpr float kStart = kQuarters;
  static constexpr float kUnit = 0.25f;
  static constexpr int kAhead = 3;

  SPECBOUND_DEVICE static void load(bool wanted, const uint32_t* d, const uint32_t* d2, int block,
                                    Scales& to) {
    load_once_if(wanted, d, to.parts);
    load_once_if(wanted, d2 + of_256(block), to.d);
  }
  // 4 (q - 32).
  SPECBOUND_DEVICE static Word4 operand(const Values& v) {
    constexpr uint32_t kUpper = 0xfcfcfcfc;
    const uint32_t last =
        ((v.x << 6) & 0xc0c0c0c0u) | ((v.y << 4) & 0x30303030u) | ((v.z << 2) & 0x0c0c0c0cu);
    return {v.x & kUpper, v.y & kUpper, v.z & kUpper, last};
  }
  SPECBOUND_DEVICE static BlockFactors factors(const Scales& s) {
    return {{lower_half(s.d), upper_half(s.d)}, {}, s.parts};
  }
};

// Calls act(Form{}) with the form of a type, on the device or for a launcher.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Act>
SPECBOUND_HOST_DEVICE void as_form(DType type, const Act& act) {
  if (type == DType::kQ4_0) {
    act(FormQ4_0{});
  } else if (type == DType::kQ4_1) {
    act(FormQ4_1{});
  } else if (type == DType::kQ4_K) {
    act(FormQ4_K{});
  } else if (type == DType::kQ5_0) {
    act(FormQ5_0{});
  } else if (type == DType::kQ5_1) {
    act(FormQ5_1{});
  } else if (type == DType::kQ5_K) {
    act(FormQ5_K{});
  } else if (type == DType::kQ6_K) {
    act(FormQ6_K{});
  } else {
    act(FormQ8_0{});
  }
}

// Bytes from where a lane's values of a block begin to where the next lane's do.
template <class Stored>
inline constexpr size_t kLaneStep = sizeof(Stored);
template <>
inline constexpr size_t kLaneStep<StoredFiveBits> = sizeof(Word2);
template <>
inline constexpr size_t kLaneStep<SixBitLane> = sizeof(uint32_t);

// This lane's values of block `block` of a matrix at q, counted through all tiles; kWarp on are
// those of the next one.
template <class Stored>
SPECBOUND_DEVICE const Stored* lane_values(const void* q, size_t block) {
  const auto* values = static_cast<const uint8_t*>(q) + block * kWarp * sizeof(Stored);
  return reinterpret_cast<const Stored*>(values + lane_index() * kLaneStep<Stored>);
}

// What d2 has of this lane's outputs, from the first of a tile on: a word of both or (Word2) one of
// each; else null.
template <class Form>
SPECBOUND_DEVICE const uint32_t* d2_of_tile(const TilesI8& w, int tile) {
  if constexpr (Form::kD2Words == 0) {
    return nullptr;
  } else {
    const size_t n = static_cast<size_t>(w.n_in / kQuantBlock / Form::kD2Blocks);
    return w.d2 + (tile * n * kPanelRows + lane_index() / 4) * Form::kD2Words;
  }
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
  SB_CHECK(aligned(w.q, 16) && aligned(w.d, 4) && (!has_d2(w.type) || aligned(w.d2, 8)));
}

// The exact sums of a block's products, the last places of floats that begin as kStart.
template <class Form>
SPECBOUND_DEVICE void block_sums(const Word4& weights, const Word2& x, int32_t (&sum)[4]) {
  mma_16x8x32(sum, weights, x, static_cast<int32_t>(bits_of(Form::kStart)));
}

// Of a panel's block, its first 16 k: lanes t = 0, 1 have them.
SPECBOUND_DEVICE Word2 first_half(const Word2& x) {
  const uint32_t keep = lane_index() % 4 < 2 ? 0xffffffffu : 0u;
  return {x.x & keep, x.y & keep};
}

// c (of one tile and panel) += the exact integer sums of a block, scaled; less the mins, where
// `less_mins` is -xsum * dx of the rows 2t and 2t + 1. With scales s0 and s1 of each 16 k the sum
// is s1 * (all of it) + (s0 - s1) * (that of the first 16): two products of whole blocks, exact as
// int8_formula.h has it. Of one row those of rows 2t + 1 are left out.
template <class Form, bool kOneRow = false>
SPECBOUND_DEVICE void add_block(const Word4& weights, const BlockFactors& of, const Word2& x,
                                const Word2& dx, const Float2& less_mins, float (&acc)[4]) {
  constexpr int kStep = kOneRow ? 2 : 1;
  [[maybe_unused]] float first[4];
  if constexpr (Form::kHasHalves) {
    int32_t of_first[4];
    block_sums<Form>(weights, first_half(x), of_first);
#pragma unroll
    for (int i = 0; i < 4; i += kStep) {
      first[i] = float_of(static_cast<uint32_t>(of_first[i])) - Form::kStart;
    }
  }
  int32_t sum[4];
  block_sums<Form>(weights, x, sum);
  [[maybe_unused]] float scale[2][2];  // of the first 16 k and of the others
  if constexpr (Form::kHasHalves) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scale[i % 2][i / 2] = signed_byte_of(of.parts, i);
  }
  const float dx_of[2] = {float_of(dx.x), float_of(dx.y)};
  [[maybe_unused]] const float less[2] = {less_mins.x, less_mins.y};
#pragma unroll
  for (int i = 0; i < 4; i += kStep) {
    float isum = float_of(static_cast<uint32_t>(sum[i])) - Form::kStart;
    if constexpr (Form::kHasHalves) {
      isum = fused(scale[1][i / 2], isum - first[i], scale[0][i / 2] * first[i]);
    }
    acc[i] = fused(isum, of.dw[i / 2] * dx_of[i % 2], acc[i]);
    if constexpr (Form::kHasMins) {
      acc[i] = fused(less[i % 2], of.mw[i / 2], acc[i]);
    }
  }
}

// What the numbers of this lane are multiplied by, of output g or (1) of g + 8.
template <class Form>
SPECBOUND_DEVICE float lane_scale(const BlockFactors& of, int output) {
  if constexpr (Form::kHasHalves) {
    const bool first = lane_index() % 4 < 2;
    return of.dw[output] * signed_byte_of(of.parts, 2 * output + (first ? 0 : 1));
  } else {
    return of.dw[output];
  }
}

// -xsum * dx of rows 2t and 2t + 1 of a panel's block, xsum exact: a product with ones.
SPECBOUND_DEVICE Float2 less_mins_of(const Word2& x, const Word2& dx) {
  constexpr uint32_t kOne = 0x01010101;
  int32_t sum[4];
  block_sums<FormQ8_0>(Word4{kOne, kOne, kOne, kOne}, x, sum);
  return {(kOnes - float_of(static_cast<uint32_t>(sum[0]))) * float_of(dx.x),
          (kOnes - float_of(static_cast<uint32_t>(sum[1]))) * float_of(dx.y)};
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
