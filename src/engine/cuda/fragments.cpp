#include "engine/cuda/fragments.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "error.h"
#include "model/dequantize.h"
#include "model/dtype.h"
#include "model/half.h"

namespace specbound {
namespace {

constexpr int kInt8Block = 32, kHalfBlock = 16;
constexpr int kBlocksOf256 = 8;
constexpr int kLanesOfOutput = 4;  // t = 0..3
constexpr int kBlockBytes = 512;   // of a tile

// What lane 4 g + t holds of output `output`, eight bytes of a row: words 0 and 2 of the lane are
// those of output g, 1 and 3 those of g + 8.
void store_words(std::byte* block, int output, int t, const void* eight_bytes) {
  std::byte* lane = block + (output % 8 * kLanesOfOutput + t) * 16 + output / 8 * 4;
  std::memcpy(lane, eight_bytes, 4);
  std::memcpy(lane + 8, static_cast<const std::byte*>(eight_bytes) + 4, 4);
}

// The same of 4 bits, eight numbers: the first four below, the others above, in word 0 or 1.
void store_nibbles(int8_t* block, int output, int t, const uint8_t* eight) {
  int8_t* word = block + (output % 8 * kLanesOfOutput + t) * 8 + output / 8 * 4;
  for (int i = 0; i < 4; ++i) word[i] = static_cast<int8_t>(eight[i] | eight[i + 4] << 4);
}

// Where the scale of an output lies among those of a block.
int scale_place(int output) {
  return 2 * (output % 8) + output / 8;
}

uint16_t rounded(float x, size_t& too_large) {
  const uint16_t half = float_to_half(x);
  const bool finite = (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
  too_large += finite && (half & 0x7fffu) == 0x7c00u;
  return half;
}

int tiles(const Matrix& source) {
  return (source.n_out + kFragmentOutputs - 1) / kFragmentOutputs;
}

// A row's part of a block: 32 numbers in their order, and the scale.
struct Nibbles {
  uint8_t q[kInt8Block];
  uint16_t d;
};

Nibbles nibbles(const BlockQ4_0& block) {
  Nibbles out;
  for (int i = 0; i < 16; ++i) {
    out.q[i] = block.q[i] & 15;
    out.q[i + 16] = block.q[i] >> 4;
  }
  out.d = block.d;
  return out;
}

Nibbles nibbles(const BlockQ4_K& block, int part) {
  const Q4KScale scale = q4_k_scale(block, part);
  Nibbles out;
  for (int i = 0; i < kInt8Block; ++i) {
    out.q[i] = block.q[part / 2 * kInt8Block + i] >> (part % 2 * 4) & 15;
  }
  out.d = static_cast<uint16_t>(scale.scale | scale.min << 8);
  return out;
}

}  // namespace

FragmentShape int8_fragments(const Matrix& source) {
  const bool q4_k = source.type == DType::kQ4_K, four = q4_k || source.type == DType::kQ4_0;
  const int n_blocks = source.n_in / kInt8Block;
  return {tiles(source), n_blocks, four ? kBlockBytes / 2 : kBlockBytes,
          q4_k ? n_blocks / kBlocksOf256 : 0};
}

FragmentShape half_fragments(const Matrix& source) {
  return {tiles(source), (source.n_in + 31) / 32 * 2, kBlockBytes, 0};
}

void repack_int8(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d) {
  SB_CHECK(source.type == DType::kQ8_0 && source.n_in % kInt8Block == 0);
  SB_CHECK(begin >= 0 && end <= tiles(source));
  const int n_blocks = source.n_in / kInt8Block;
  const auto* blocks = reinterpret_cast<const BlockQ8_0*>(source.data);
  auto* to = reinterpret_cast<std::byte*>(q);
  for (int tile = begin; tile < end; ++tile) {
    for (int b = 0; b < n_blocks; ++b, to += kBlockBytes, d += kFragmentOutputs) {
      for (int o = 0; o < kFragmentOutputs; ++o) {
        static constexpr BlockQ8_0 kNothing{};
        const int output = tile * kFragmentOutputs + o;
        const BlockQ8_0& block =
            output < source.n_out ? blocks[static_cast<size_t>(output) * n_blocks + b] : kNothing;
        d[scale_place(o)] = block.d;
        for (int t = 0; t < kLanesOfOutput; ++t) store_words(to, o, t, block.q + 8 * t);
      }
    }
  }
}

void repack_4bit(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d, uint32_t* d2) {
  const FragmentShape shape = int8_fragments(source);
  const bool q4_k = source.type == DType::kQ4_K;
  SB_CHECK((q4_k || source.type == DType::kQ4_0) && begin >= 0 && end <= shape.n_tiles);
  SB_CHECK(source.n_in % static_cast<int>(dtype_info(source.type)->block) == 0);
  const auto* q4_0_blocks = reinterpret_cast<const BlockQ4_0*>(source.data);
  const auto* q4_k_blocks = reinterpret_cast<const BlockQ4_K*>(source.data);
  for (int tile = begin; tile < end; ++tile) {
    for (int b = 0; b < shape.n_blocks; ++b, q += shape.block_bytes, d += kFragmentOutputs) {
      const int super = b / kBlocksOf256, part = b % kBlocksOf256;
      for (int o = 0; o < kFragmentOutputs; ++o) {
        const size_t output = static_cast<size_t>(tile) * kFragmentOutputs + o;
        const bool exists = output < static_cast<size_t>(source.n_out);
        Nibbles row{};
        uint32_t super_scales = 0;
        if (exists && q4_k) {
          const BlockQ4_K& block = q4_k_blocks[output * shape.n_supers + super];
          row = nibbles(block, part);
          super_scales = block.d | static_cast<uint32_t>(block.dmin) << 16;
        } else if (exists) {
          row = nibbles(q4_0_blocks[output * shape.n_blocks + b]);
        }
        for (int t = 0; t < kLanesOfOutput; ++t) store_nibbles(q, o, t, row.q + 8 * t);
        d[scale_place(o)] = row.d;
        if (q4_k && part == 0) d2[scale_place(o)] = super_scales;
      }
      if (q4_k && part == 0) d2 += kFragmentOutputs;
    }
  }
}

size_t repack_half(const Matrix& source, int begin, int end, uint16_t* w) {
  SB_CHECK(begin >= 0 && end <= tiles(source));
  const int n_in = source.n_in, n_blocks = half_fragments(source).n_blocks;
  const size_t row_bytes = source.bytes() / source.n_out;
  std::vector<float> values(n_in);
  std::vector<uint16_t> row(static_cast<size_t>(n_blocks) * kHalfBlock);
  size_t too_large = 0;
  for (int tile = begin; tile < end; ++tile) {
    auto* const blocks = reinterpret_cast<std::byte*>(w) +
                         static_cast<size_t>(tile - begin) * n_blocks * kBlockBytes;
    for (int o = 0; o < kFragmentOutputs; ++o) {
      const int output = tile * kFragmentOutputs + o;
      if (output < source.n_out) {
        const std::byte* from = source.data + output * row_bytes;
        if (source.type == DType::kF16) {
          std::memcpy(row.data(), from, row_bytes);
        } else {
          dequantize(from, source.type, n_in, values.data());
          for (int k = 0; k < n_in; ++k) row[k] = rounded(values[k], too_large);
        }
      } else {
        std::fill(row.begin(), row.end(), 0);
      }
      for (int b = 0; b < n_blocks; ++b) {
        const uint16_t* of_block = row.data() + b * kHalfBlock;
        for (int t = 0; t < kLanesOfOutput; ++t) {
          store_words(blocks + static_cast<size_t>(b) * kBlockBytes, o, t, of_block + 4 * t);
        }
      }
    }
  }
  return too_large;
}

}  // namespace specbound
