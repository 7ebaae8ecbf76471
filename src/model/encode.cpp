#include "model/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "error.h"
#include "model/half.h"

namespace specbound {
namespace {

// The largest |x|, or infinity or NaN where one of them is. By the bits, of which integers are in
// the order of the sizes: compilers make vectors of that.
float largest_size(const float* x, int n) {
  int32_t largest = 0;
  for (int i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<int32_t>(x[i]) & 0x7fffffff);
  }
  return std::bit_cast<float>(largest);
}

bool finite_half(uint16_t h) {
  return std::isfinite(half_to_float(h));
}

BlockQ8_0 encode_q8_0(const float* x) {
  BlockQ8_0 block = {};
  const float amax = largest_size(x, 32);
  const float d = std::isfinite(amax) ? amax / 127.0f : std::numeric_limits<float>::infinity();
  block.d = float_to_half(d);
  // Blocks whose scale is 0 or infinite as a half have no values to store; 1 / d might overflow.
  if (block.d == 0 || !finite_half(block.d)) return block;
  const float inverse = 1.0f / d;
  for (int i = 0; i < 32; ++i) {
    // roundf() as what vectors have: the part behind the point is exact.
    const float value = x[i] * inverse;
    const int whole = static_cast<int>(value);
    const float rest = value - static_cast<float>(whole);
    block.q[i] = static_cast<int8_t>(whole + (rest >= 0.5f) - (rest <= -0.5f));
  }
  return block;
}

BlockQ4_0 encode_q4_0(const float* x) {
  BlockQ4_0 block;
  std::memset(block.q, 0x88, sizeof block.q);  // zeros, or NaN where the scale is not finite
  const float amax = largest_size(x, 32);
  block.d = float_to_half(std::numeric_limits<float>::infinity());
  if (!std::isfinite(amax)) return block;
  const float* const first = std::find_if(x, x + 32, [&](float v) { return std::fabs(v) == amax; });
  const float d = *first / -8.0f;
  block.d = float_to_half(d);
  const float inverse = 1.0f / d;
  if (!finite_half(block.d) || !std::isfinite(inverse)) return block;
  for (int i = 0; i < 16; ++i) {
    const int low = static_cast<int>(x[i] * inverse + 8.5f);
    const int high = static_cast<int>(x[i + 16] * inverse + 8.5f);
    block.q[i] = static_cast<uint8_t>(std::min(low, 15) | std::min(high, 15) << 4);
  }
  return block;
}

template <typename Block>
void encode_blocks(std::span<const float> values, int elements, Block (*encode)(const float*),
                   std::byte* out) {
  for (size_t i = 0; i < values.size(); i += elements, out += sizeof(Block)) {
    const Block block = encode(&values[i]);
    std::memcpy(out, &block, sizeof(block));
  }
}

}  // namespace

void encode_floats(std::span<const float> values, DType type, std::byte* out) {
  const DTypeInfo* info = dtype_info(type);
  SB_CHECK(info && values.size() % info->block == 0);
  const int block = static_cast<int>(info->block);
  switch (type) {
    case DType::kF32:
      if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
      return;
    case DType::kF16:
    case DType::kBF16:
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t bits =
            type == DType::kF16 ? float_to_half(values[i]) : float_to_bfloat(values[i]);
        std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
      }
      return;
    case DType::kQ8_0:
      return encode_blocks(values, block, encode_q8_0, out);
    case DType::kQ4_0:
      return encode_blocks(values, block, encode_q4_0, out);
    case DType::kQ4_K:
      return encode_blocks(values, block, encode_q4_k, out);
    default:
      SB_CHECK(!"a type that floats are encoded as");
  }
}

std::vector<std::byte> encode_floats(std::span<const float> values, DType type) {
  const DTypeInfo* info = dtype_info(type);
  SB_CHECK(info && values.size() % info->block == 0);
  std::vector<std::byte> bytes(values.size() / info->block * info->bytes);
  encode_floats(values, type, bytes.data());
  return bytes;
}

}  // namespace specbound
