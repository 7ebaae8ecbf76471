#include "model/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "error.h"
#include "model/half.h"

namespace specbound {
namespace {

constexpr size_t kBlock = sizeof(BlockQ8_0::q);

BlockQ8_0 encode_block(const float* x) {
  float amax = 0;
  bool finite = true;
  for (size_t i = 0; i < kBlock; ++i) {
    finite &= std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  BlockQ8_0 block = {};
  const float d = finite ? amax / 127.0f : std::numeric_limits<float>::infinity();
  block.d = float_to_half(d);
  // Blocks whose scale is 0 or infinite as a half have no values to store; 1 / d might overflow.
  if (block.d == 0 || !std::isfinite(half_to_float(block.d))) return block;
  const float inverse = 1.0f / d;
  for (size_t i = 0; i < kBlock; ++i) {
    block.q[i] = static_cast<int8_t>(std::roundf(x[i] * inverse));
  }
  return block;
}

}  // namespace

std::vector<std::byte> encode_floats(std::span<const float> values, DType type) {
  const DTypeInfo* info = dtype_info(type);
  SB_CHECK(info && values.size() % info->block == 0);
  std::vector<std::byte> bytes(values.size() / info->block * info->bytes);
  std::byte* to = bytes.data();
  for (size_t i = 0; i < values.size(); i += info->block, to += info->bytes) {
    if (type == DType::kF32) {
      std::memcpy(to, &values[i], sizeof(float));
    } else if (type == DType::kQ8_0) {
      const BlockQ8_0 block = encode_block(&values[i]);
      std::memcpy(to, &block, sizeof(block));
    } else {
      SB_CHECK(type == DType::kF16 || type == DType::kBF16);
      const uint16_t bits =
          type == DType::kF16 ? float_to_half(values[i]) : float_to_bfloat(values[i]);
      std::memcpy(to, &bits, sizeof(bits));
    }
  }
  return bytes;
}

}  // namespace specbound
