#include "model/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "error.h"
#include "numerics/half.h"

namespace specbound {
namespace {

// In all of these, the loops inside go over bytes that one shift and one scale hold for: the
// compiler makes vectors of them.

void decode(const BlockQ8_0& b, float* out) {
  const float d = half_to_float(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.q[i]);
}

void decode(const BlockQ4_0& b, float* out) {
  const float d = half_to_float(b.d);
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((b.q[i] & 15) - 8);
  for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((b.q[i] >> 4) - 8);
}

void decode(const BlockQ4_1& b, float* out) {
  const float d = half_to_float(b.d), m = half_to_float(b.m);
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(b.q[i] & 15) + m;
  for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>(b.q[i] >> 4) + m;
}

// Five bits of element i of 32.
int five_bits(const uint8_t* q, const uint8_t* high, int i) {
  const int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
  return low | (high[i / 8] >> (i % 8) & 1) << 4;
}

void decode(const BlockQ5_0& b, float* out) {
  const float d = half_to_float(b.d);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(five_bits(b.q, b.high, i) - 16);
  }
}

void decode(const BlockQ5_1& b, float* out) {
  const float d = half_to_float(b.d), m = half_to_float(b.m);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(five_bits(b.q, b.high, i)) + m;
  }
}

void decode(const BlockQ2_K& b, float* out) {
  const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(b.scales[part] & 15);
    const float min = dmin * static_cast<float>(b.scales[part] >> 4);
    const uint8_t* q = b.q + part / 8 * 32 + part % 2 * 16;
    const int shift = part / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) *out++ = scale * static_cast<float>(q[i] >> shift & 3) - min;
  }
}

void decode(const BlockQ3_K& b, float* out) {
  const float d = half_to_float(b.d);
  for (int part = 0; part < 16; ++part) {
    const int low = b.scales[part % 8] >> part / 8 * 4 & 15;
    const int high = b.scales[8 + part % 4] >> part / 4 * 2 & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    const uint8_t* q = b.q + part / 8 * 32 + part % 2 * 16;
    const uint8_t* third = b.high + part % 2 * 16;
    const int shift = part / 2 % 4 * 2, bit = part / 2;
    for (int i = 0; i < 16; ++i) {
      const int three = (q[i] >> shift & 3) | (third[i] >> bit & 1) << 2;
      *out++ = scale * static_cast<float>(three - 4);
    }
  }
}

void decode(const BlockQ4_K& b, float* out) {
  const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
  for (int part = 0; part < 8; ++part) {
    const Q4KScale packed = q4_k_scale(b, part);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    const uint8_t* q = b.q + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) *out++ = scale * static_cast<float>(q[i] >> shift & 15) - min;
  }
}

void decode(const BlockQ5_K& b, float* out) {
  const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
  for (int part = 0; part < 8; ++part) {
    const Q4KScale packed = q4_k_scale(b.scales, part);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    const uint8_t* q = b.q + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int five = (q[i] >> shift & 15) | (b.high[i] >> part & 1) << 4;
      *out++ = scale * static_cast<float>(five) - min;
    }
  }
}

void decode(const BlockQ6_K& b, float* out) {
  const float d = half_to_float(b.d);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(b.scales[part]);
    const uint8_t* low = b.low + part / 8 * 64 + part % 4 * 16;
    const uint8_t* high = b.high + part / 8 * 32 + part % 2 * 16;
    const int low_shift = part / 4 % 2 * 4, high_shift = part / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      const int six = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
      *out++ = scale * static_cast<float>(six - 32);
    }
  }
}

void decode(const BlockIQ4_NL& b, float* out) {
  const float d = half_to_float(b.d);
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(iq4_nl_value(b.q[i] & 15));
  for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>(iq4_nl_value(b.q[i] >> 4));
}

// Blocks are copied before they are read: what lies in a file may be aligned to less than they are.
template <typename Block>
void decode_blocks(const std::byte* data, size_t n, int elements, float* out) {
  for (size_t i = 0; i < n; i += elements, data += sizeof(Block)) {
    Block block;
    std::memcpy(&block, data, sizeof(block));
    decode(block, out + i);
  }
}

template <float (*to_float)(uint16_t)>
void decode_16_bits(const std::byte* data, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
    out[i] = to_float(bits);
  }
}

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

void dequantize(const std::byte* data, DType type, size_t n, float* out) {
  const DTypeInfo* info = dtype_info(type);
  SB_CHECK(info && n % info->block == 0);
  const int block = static_cast<int>(info->block);
  switch (type) {
    case DType::kF32:
      if (n > 0) std::memcpy(out, data, n * sizeof(float));
      return;
    case DType::kF16:
      return decode_16_bits<half_to_float>(data, n, out);
    case DType::kBF16:
      return decode_16_bits<bfloat_to_float>(data, n, out);
    case DType::kQ8_0:
      return decode_blocks<BlockQ8_0>(data, n, block, out);
    case DType::kQ4_0:
      return decode_blocks<BlockQ4_0>(data, n, block, out);
    case DType::kQ4_1:
      return decode_blocks<BlockQ4_1>(data, n, block, out);
    case DType::kQ5_0:
      return decode_blocks<BlockQ5_0>(data, n, block, out);
    case DType::kQ5_1:
      return decode_blocks<BlockQ5_1>(data, n, block, out);
    case DType::kQ2_K:
      return decode_blocks<BlockQ2_K>(data, n, block, out);
    case DType::kQ3_K:
      return decode_blocks<BlockQ3_K>(data, n, block, out);
    case DType::kQ4_K:
      return decode_blocks<BlockQ4_K>(data, n, block, out);
    case DType::kQ5_K:
      return decode_blocks<BlockQ5_K>(data, n, block, out);
    case DType::kQ6_K:
      return decode_blocks<BlockQ6_K>(data, n, block, out);
    case DType::kIQ4_NL:
      return decode_blocks<BlockIQ4_NL>(data, n, block, out);
    default:
      SB_CHECK(!"elements of a type that runs_as() something");
  }
}

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
