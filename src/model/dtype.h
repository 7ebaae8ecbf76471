// Tensor element types, numbered as in GGUF files (ggml's enum).
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

// How a type is stored: `block` elements share `bytes` bytes. Null for numbers this list lacks.
struct DTypeInfo {
  DType type;
  const char* name;  // "F32", "Q8_0", ...
  uint32_t block;    // elements
  uint32_t bytes;    // per block
};
const DTypeInfo* dtype_info(DType type);

// What matrices of a stored type run as: F32, F16, BF16, Q8_0, Q4_0 and Q4_K as they are; Q4_1,
// Q5_0, Q5_1, Q2_K, Q3_K, Q5_K and Q6_K as Q8_0, into which they are converted at load
// (model/conversion.h). None: they cannot run here.
std::optional<DType> runs_as(DType stored);
// Whether matrices of a type that runs take rows quantized to INT8: all but F32, F16 and BF16.
bool takes_int8_rows(DType type);

// A Q8_0 block, as it lies in the file: 32 elements, value = d * q.
struct BlockQ8_0 {
  uint16_t d;  // IEEE half
  int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// A Q4_0 block: 32 elements, value = d * (q - 8). Byte i holds element i below, i + 16 above.
struct BlockQ4_0 {
  uint16_t d;  // IEEE half
  uint8_t q[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// A Q4_K block: 256 elements in 8 parts of 32, value = d * scale * q - dmin * min with scale and
// min (6 bits each) of the part. Of each pair of parts, byte i holds element i of the first part
// below and of the second above.
struct BlockQ4_K {
  uint16_t d, dmin;    // IEEE halves
  uint8_t scales[12];  // packed: q4_k_scale()
  uint8_t q[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

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
constexpr Q4KScale q4_k_scale(const BlockQ4_K& block, int part) {
  return q4_k_scale(block.scales, part);
}

}  // namespace specbound
