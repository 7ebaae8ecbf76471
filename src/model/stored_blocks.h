// Blocks of elements as they lie in GGUF files, of the types that no engine multiplies by as they
// are: dtype.h has the others. Halves are IEEE.
#pragma once

#include <cstdint>

namespace specbound {

// 32 elements, value = d * q + m. Byte i holds element i below, i + 16 above.
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t q[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// 32 elements, value = d * (q - 16): four bits as in Q4_0, the fifth of element i is bit i % 8 of
// high[i / 8].
struct BlockQ5_0 {
  uint16_t d;
  uint8_t high[4];
  uint8_t q[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// The same with value = d * q + m.
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t high[4];
  uint8_t q[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

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

// Q4_K with a fifth bit: that of element i is bit i / 32 of high[i % 32].
struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t q[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// 256 elements in 16 parts of 16, value = d * scale * (q - 32). Of each half (128), low byte i
// holds the low four bits of elements i and i + 64, high byte i the high two of elements i, i + 32,
// i + 64, i + 96.
struct BlockQ6_K {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

}  // namespace specbound
