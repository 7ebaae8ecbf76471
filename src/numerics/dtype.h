// Tensor element types, numbered as in GGUF files (ggml's enum): one table that says how each is
// stored and what it runs as, and the blocks as they lie in files. Everything that depends on a
// type reads it here; a new quantization is a row, a block and its arithmetic (model/codec.cpp,
// kernels/weight_forms.cuh, and engine/cpu/matmul_impl.h where it runs as it is).
#pragma once

#include <cstdint>
#include <optional>

namespace specbound {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

struct DTypeInfo {
  DType type;
  const char* name;  // "F32", "Q8_0", ...
  // `block` elements share `bytes` bytes.
  uint32_t block, bytes;
  // What matrices of it run as: it, or Q8_0, into which they are converted at load
  // (model/conversion.h). None: they cannot run here.
  std::optional<DType> runs_as = {};
  // general.file_type of a model that is mostly of it; 0: no model is quantized to it.
  uint32_t file_type = 0;
};

// Types that do not run are known so that a file holding them can be described.
inline constexpr DTypeInfo kDTypes[] = {
    {DType::kF32, "F32", 1, 4, DType::kF32},
    {DType::kF16, "F16", 1, 2, DType::kF16, 1},
    {DType::kBF16, "BF16", 1, 2, DType::kBF16, 32},
    {DType::kQ8_0, "Q8_0", 32, 34, DType::kQ8_0, 7},
    {DType::kQ4_0, "Q4_0", 32, 18, DType::kQ4_0, 2},
    {DType::kQ4_K, "Q4_K", 256, 144, DType::kQ4_K, 14},  // Q4_K_S, which is Q4_K throughout
    {DType::kQ6_K, "Q6_K", 256, 210, DType::kQ6_K},
    {DType::kQ4_1, "Q4_1", 32, 20, DType::kQ4_1},
    {DType::kQ5_0, "Q5_0", 32, 22, DType::kQ5_0},
    {DType::kQ5_1, "Q5_1", 32, 24, DType::kQ5_1},
    {DType::kQ2_K, "Q2_K", 256, 84, DType::kQ8_0},
    {DType::kQ3_K, "Q3_K", 256, 110, DType::kQ8_0},
    {DType::kQ5_K, "Q5_K", 256, 176, DType::kQ5_K},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18, DType::kQ8_0},
    {DType::kQ8_1, "Q8_1", 32, 36},
    {DType::kQ8_K, "Q8_K", 256, 292},
    {DType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    {DType::kIQ2_XS, "IQ2_XS", 256, 74},
    {DType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    {DType::kIQ1_S, "IQ1_S", 256, 50},
    {DType::kIQ3_S, "IQ3_S", 256, 110},
    {DType::kIQ2_S, "IQ2_S", 256, 82},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136},
    {DType::kIQ1_M, "IQ1_M", 256, 56},
    {DType::kTQ1_0, "TQ1_0", 256, 54},
    {DType::kTQ2_0, "TQ2_0", 256, 66},
    {DType::kMXFP4, "MXFP4", 32, 17},
    {DType::kI8, "I8", 1, 1},
    {DType::kI16, "I16", 1, 2},
    {DType::kI32, "I32", 1, 4},
    {DType::kI64, "I64", 1, 8},
    {DType::kF64, "F64", 1, 8},
};

// Null for numbers that the table lacks.
constexpr const DTypeInfo* dtype_info(DType type) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

constexpr std::optional<DType> runs_as(DType stored) {
  const DTypeInfo* info = dtype_info(stored);
  return info ? info->runs_as : std::nullopt;
}

// Whether matrices of a type that runs take rows quantized to INT8: all but F32, F16 and BF16.
constexpr bool takes_int8_rows(DType type) {
  const DTypeInfo* info = dtype_info(type);
  return info && info->runs_as && info->block > 1;
}

// The form in which a matrix of this type multiplies INT8 rows: Q8_0 unless it runs as it is.
constexpr DType int8_form(DType stored) {
  return takes_int8_rows(stored) ? *runs_as(stored) : DType::kQ8_0;
}

// Of such a form, what its layouts on the CPU (engine/cpu/tiles.h) and on GPUs (kernels/layouts.h)
// follow from: bits of a number; whether blocks of 32 have mins beside their scales, or a scale for
// each 16; and whether their scales are two bytes each, beside what 256 numbers share.
[[gnu::always_inline]] constexpr int bits_of_form(DType form) {
  switch (form) {
    case DType::kQ8_0:
      return 8;
    case DType::kQ6_K:
      return 6;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return 5;
    default:
      return 4;
  }
}
[[gnu::always_inline]] constexpr bool form_has_mins(DType form) {
  return form == DType::kQ4_K || form == DType::kQ4_1 || form == DType::kQ5_K ||
         form == DType::kQ5_1;
}
[[gnu::always_inline]] constexpr bool form_has_halves(DType form) {
  return form == DType::kQ6_K;
}
[[gnu::always_inline]] constexpr bool form_has_parts(DType form) {
  return form == DType::kQ4_K || form == DType::kQ6_K || form == DType::kQ5_K;
}

// ---- blocks that run as they are ----
//
// word(part, g): of the 32 numbers of a part, group g = 0..7 of four, a byte each; of 4 and 5 bits,
// four bits of the group g = 0..3 in the lower halves of the bytes and of the group g + 4 in the
// upper ones.
// fifths(part), of 5 bits: the highest ones, that of number j of group g in bit 8 j + g.
// part_bytes(part), of forms that have parts: the two bytes of a part's scales. min(), of forms
// that have mins: what they are multiples of or, without parts, what is taken off itself.

inline uint32_t word_at(const void* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

// 32 elements, value = d * q.
struct BlockQ8_0 {
  static constexpr DType kForm = DType::kQ8_0;
  uint16_t d;  // IEEE half, as all scales here
  int8_t q[32];

  uint32_t word(int, int g) const { return word_at(q + 4 * g); }
};
static_assert(sizeof(BlockQ8_0) == 34);

// 32 elements, value = d * (q - 8). Byte i holds element i below, i + 16 above.
struct BlockQ4_0 {
  static constexpr DType kForm = DType::kQ4_0;
  uint16_t d;
  uint8_t q[16];

  uint32_t word(int, int g) const { return word_at(q + 4 * g); }
};
static_assert(sizeof(BlockQ4_0) == 18);

// 32 elements, value = d * q + m. Byte i holds element i below, i + 16 above.
struct BlockQ4_1 {
  static constexpr DType kForm = DType::kQ4_1;
  uint16_t d, m;
  uint8_t q[16];

  uint32_t word(int, int g) const { return word_at(q + 4 * g); }
  uint16_t min() const { return m ^ 0x8000; }  // -m
};
static_assert(sizeof(BlockQ4_1) == 20);

// Of bits in the order of elements what fifths() has.
constexpr uint32_t fifths_of(uint32_t in_order) {
  uint32_t fifths = 0;
  for (int j = 0; j < 4; ++j) {
    uint32_t every_fourth = in_order >> j & 0x11111111u;
    every_fourth = (every_fourth | every_fourth >> 3) & 0x03030303u;
    every_fourth = (every_fourth | every_fourth >> 6) & 0x000f000fu;
    fifths |= ((every_fourth | every_fourth >> 12) & 0xffu) << 8 * j;
  }
  return fifths;
}

// 32 elements, value = d * (q - 16): four bits as in Q4_0, the fifth of element i is bit i % 8 of
// high[i / 8].
struct BlockQ5_0 {
  static constexpr DType kForm = DType::kQ5_0;
  uint16_t d;
  uint8_t high[4];
  uint8_t q[16];

  uint32_t word(int, int g) const { return word_at(q + 4 * g); }
  uint32_t fifths(int) const { return fifths_of(word_at(high)); }
};
static_assert(sizeof(BlockQ5_0) == 22);

// The same with value = d * q + m.
struct BlockQ5_1 {
  static constexpr DType kForm = DType::kQ5_1;
  uint16_t d, m;
  uint8_t high[4];
  uint8_t q[16];

  uint32_t word(int, int g) const { return word_at(q + 4 * g); }
  uint32_t fifths(int) const { return fifths_of(word_at(high)); }
  uint16_t min() const { return m ^ 0x8000; }  // -m
};
static_assert(sizeof(BlockQ5_1) == 24);

struct PartBytes {
  uint8_t first, second;
};

// Scale and min of part 0..7, out of the 12 bytes that Q4_K and Q5_K pack them in.
struct Q4KScale {
  uint8_t scale, min;  // 0..63
};
constexpr Q4KScale q4_k_scale(const uint8_t* s, int part) {
  if (part < 4) {
    return {static_cast<uint8_t>(s[part] & 63), static_cast<uint8_t>(s[part + 4] & 63)};
  }
  return {static_cast<uint8_t>((s[part + 4] & 15) | (s[part - 4] >> 6) << 4),
          static_cast<uint8_t>((s[part + 4] >> 4) | (s[part] >> 6) << 4)};
}

// word() of Q4_K and Q5_K.
inline uint32_t q4_k_word(const uint8_t* q, int part, int g) {
  const uint8_t* bytes = q + part / 2 * 32 + 4 * g;
  const int shift = part % 2 * 4;
  const uint32_t below = word_at(bytes) >> shift & 0x0f0f0f0fu;
  const uint32_t above = word_at(bytes + 16) >> shift & 0x0f0f0f0fu;
  return below | above << 4;
}

// 256 elements in 8 parts of 32, value = d * scale * q - dmin * min with scale and min (6 bits
// each) of the part. Of each pair of parts, byte i holds element i of the first part below and of
// the second above.
struct BlockQ4_K {
  static constexpr DType kForm = DType::kQ4_K;
  uint16_t d, dmin;
  uint8_t scales[12];  // packed: q4_k_scale()
  uint8_t q[128];

  uint32_t word(int part, int g) const { return q4_k_word(q, part, g); }
  uint16_t min() const { return dmin; }
  PartBytes part_bytes(int part) const {
    const Q4KScale packed = q4_k_scale(scales, part);
    return {packed.scale, packed.min};
  }
};
static_assert(sizeof(BlockQ4_K) == 144);

// Q4_K with a fifth bit: that of element i is bit i / 32 of high[i % 32].
struct BlockQ5_K {
  static constexpr DType kForm = DType::kQ5_K;
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t q[128];

  uint32_t word(int part, int g) const { return q4_k_word(q, part, g); }
  uint32_t fifths(int part) const {
    uint32_t bits = 0;
    for (int g = 0; g < 8; ++g) bits |= (word_at(high + 4 * g) >> part & 0x01010101u) << g;
    return bits;
  }
  uint16_t min() const { return dmin; }
  PartBytes part_bytes(int part) const {
    const Q4KScale packed = q4_k_scale(scales, part);
    return {packed.scale, packed.min};
  }
};
static_assert(sizeof(BlockQ5_K) == 176);

constexpr Q4KScale q4_k_scale(const BlockQ4_K& block, int part) {
  return q4_k_scale(block.scales, part);
}

// 256 elements in 16 parts of 16, value = d * scale * (q - 32). Of each half (128), low byte i
// holds the low four bits of elements i and i + 64, high byte i the high two of elements i, i + 32,
// i + 64, i + 96. Where it runs a part is two of these: 32 elements.
struct BlockQ6_K {
  static constexpr DType kForm = DType::kQ6_K;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;

  uint32_t word(int part, int g) const {
    const int half = part / 4, i = 4 * g;
    const uint32_t four = word_at(low + half * 64 + part % 2 * 32 + i) >> part % 4 / 2 * 4;
    const uint32_t two = word_at(high + half * 32 + i) >> part % 4 * 2;
    return (four & 0x0f0f0f0fu) | (two & 0x03030303u) << 4;
  }
  PartBytes part_bytes(int part) const {
    return {static_cast<uint8_t>(scales[2 * part]), static_cast<uint8_t>(scales[2 * part + 1])};
  }
};
static_assert(sizeof(BlockQ6_K) == 210);

// Four words of numbers of 6 bits, a byte each, in three: those of the first three in the upper six
// bits of bytes, those of the fourth below them, two bits in each word, the upper ones first.
struct SixBitWords {
  uint32_t word[3];
};
constexpr SixBitWords six_bit_words(uint32_t a, uint32_t b, uint32_t c, uint32_t fourth) {
  constexpr uint32_t kTwo = 0x03030303;
  return {{a << 2 | (fourth >> 4 & kTwo), b << 2 | (fourth >> 2 & kTwo), c << 2 | (fourth & kTwo)}};
}

// Calls act(const Block*), a null pointer that stands for the form's block.
template <class Act>
void with_block_of(DType form, const Act& act) {
  if (form == DType::kQ8_0) return act(static_cast<const BlockQ8_0*>(nullptr));
  if (form == DType::kQ4_0) return act(static_cast<const BlockQ4_0*>(nullptr));
  if (form == DType::kQ4_1) return act(static_cast<const BlockQ4_1*>(nullptr));
  if (form == DType::kQ4_K) return act(static_cast<const BlockQ4_K*>(nullptr));
  if (form == DType::kQ5_0) return act(static_cast<const BlockQ5_0*>(nullptr));
  if (form == DType::kQ5_1) return act(static_cast<const BlockQ5_1*>(nullptr));
  if (form == DType::kQ5_K) return act(static_cast<const BlockQ5_K*>(nullptr));
  if (form == DType::kQ6_K) return act(static_cast<const BlockQ6_K*>(nullptr));
}

// ---- blocks that are converted at load ----

// 256 elements in 16 parts of 16, value = d * scale * q - dmin * min: each part's scale is below
// and its min above in a byte. Of each half (128), byte i holds elements i, i + 32, i + 64, i + 96.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t q[64];
  uint16_t d, dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

// 256 elements in 16 parts of 16, value = d * scale * (q - 4): two bits as in Q2_K, the third of
// element i is bit i / 32 of high[i % 32]. Scales are 6 bits and less 32: the low four of part i
// are in byte i % 8, the high two in byte 8 + i % 4.
struct BlockQ3_K {
  uint8_t high[32];
  uint8_t q[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

// 32 elements, value = d * iq4_nl_value(q): four bits as in Q4_0 say which of 16 values, that are
// denser around 0. Encoders nearly always give the largest element -127: such blocks become Q8_0
// without loss.
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t q[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// -127, -104, -83, -65, -49, -35, -22, -10, then 1, 13, 25, 38, 53, 69, 89, 113. An array of them
// would be one in memory in a kernel.
constexpr int iq4_nl_value(int q) {
  constexpr uint64_t kBelow = 0xf6eaddcfbfad9881, kAbove = 0x7159453526190d01;
  return static_cast<int8_t>((q < 8 ? kBelow : kAbove) >> q % 8 * 8);
}

}  // namespace specbound
