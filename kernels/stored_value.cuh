// One element of a tensor as a file holds it: the bits of model/dequantize.cpp, which has the same
// formulas a block at a time.
#pragma once

#include "intrinsics.cuh"
#include "model/dtype.h"
#include "model/stored_blocks.h"

namespace specbound::kernels {

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
    default:
      return not_a_number();
  }
}

}  // namespace specbound::kernels
