// Tensor element types, numbered as in GGUF files (ggml's enum).
#pragma once

#include <cstdint>

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

// A Q8_0 block, as it lies in the file: 32 elements, value = d * q.
struct BlockQ8_0 {
  uint16_t d;  // IEEE half
  int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace specbound
