// Quantized blocks of random numbers, for every type that runs: no encoder stands between a test
// and the bits that it means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "error.h"
#include "numerics/dtype.h"
#include "numerics/half.h"

namespace specbound::test {

// Where FP16 scales lie in a block (-1: nowhere), what min is as a multiple of d so that values
// spread around 0, and their standard deviation where d is 1.
struct TinyScales {
  DType type;
  int d, min;
  float offset, spread;
};

inline const TinyScales& tiny_scales(DType type) {
  static constexpr TinyScales kScales[] = {
      {DType::kQ8_0, 0, -1, 0, 73.9f},     {DType::kQ4_0, 0, -1, 0, 4.64f},
      {DType::kQ4_1, 0, 2, -7.5f, 4.61f},  {DType::kQ5_0, 0, -1, 0, 9.25f},
      {DType::kQ5_1, 0, 2, -15.5f, 9.23f}, {DType::kQ2_K, 80, 82, 1.5f, 13.2f},
      {DType::kQ3_K, 108, -1, 0, 43.4f},   {DType::kQ4_K, 0, 2, 7.5f, 258},
      {DType::kQ5_K, 0, 2, 15.5f, 527},    {DType::kQ6_K, 208, -1, 0, 1366},
      {DType::kIQ4_NL, 0, -1, 0, 67.4f},
  };
  for (const TinyScales& s : kScales) {
    if (s.type == type) return s;
  }
  SB_CHECK(!"a type with scales");
  return kScales[0];
}

// n numbers of mean 0 about; `next()` gives 64 random bits. The scales of blocks differ by up to
// a factor of 2.
template <class Next>
std::vector<std::byte> tiny_blocks(DType type, size_t n, float deviation, Next next) {
  const DTypeInfo& info = *dtype_info(type);
  const TinyScales& scales = tiny_scales(type);
  std::vector<std::byte> bytes(n / info.block * info.bytes);
  for (std::byte& b : bytes) b = static_cast<std::byte>(next() >> 56);
  for (size_t at = 0; at < bytes.size(); at += info.bytes) {
    const float factor = 0.65f * (1 + static_cast<float>(next() >> 40) * 0x1p-24f);
    const float d = factor * deviation / scales.spread;
    const uint16_t half = float_to_half(d), min = float_to_half(d * scales.offset);
    std::memcpy(&bytes[at + scales.d], &half, 2);
    if (scales.min >= 0) std::memcpy(&bytes[at + scales.min], &min, 2);
  }
  return bytes;
}

}  // namespace specbound::test
