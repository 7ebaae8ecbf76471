#include "engine/cuda/fragments.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "error.h"
#include "model/dtype.h"
#include "model/half.h"

namespace specbound {
namespace {

constexpr int kInt8Block = 32, kHalfBlock = 16;
constexpr int kLanesOfOutput = 4;  // t = 0..3
constexpr int kBlockBytes = 512;   // of a tile

// What lane 4 g + t holds of output `output`, eight bytes of a row: words 0 and 2 of the lane are
// those of output g, 1 and 3 those of g + 8.
void store_words(std::byte* block, int output, int t, const void* eight_bytes) {
  std::byte* lane = block + (output % 8 * kLanesOfOutput + t) * 16 + output / 8 * 4;
  std::memcpy(lane, eight_bytes, 4);
  std::memcpy(lane + 8, static_cast<const std::byte*>(eight_bytes) + 4, 4);
}

uint16_t rounded(float x, size_t& too_large) {
  const uint16_t half = float_to_half(x);
  const bool finite = (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
  too_large += finite && (half & 0x7fffu) == 0x7c00u;
  return half;
}

// `convert(element, count, half)`: `count` elements of the matrix from number `element` on, of one
// row and one block of 16, as halves. Returns how many became infinite.
template <class Convert>
size_t repack_rows(const Matrix& source, int begin, int end, std::byte* block, Convert convert) {
  const int n_in = source.n_in, n_blocks = half_fragments(source).n_blocks;
  size_t too_large = 0;
  for (int tile = begin; tile < end; ++tile) {
    for (int b = 0; b < n_blocks; ++b, block += kBlockBytes) {
      for (int o = 0; o < kFragmentOutputs; ++o) {
        const int output = tile * kFragmentOutputs + o, first = b * kHalfBlock;
        uint16_t half[kHalfBlock] = {};
        if (output < source.n_out) {
          const size_t at = static_cast<size_t>(output) * n_in + first;
          too_large += convert(at, std::clamp(n_in - first, 0, kHalfBlock), half);
        }
        for (int t = 0; t < kLanesOfOutput; ++t) store_words(block, o, t, half + 4 * t);
      }
    }
  }
  return too_large;
}

int tiles(const Matrix& source) {
  return (source.n_out + kFragmentOutputs - 1) / kFragmentOutputs;
}

}  // namespace

FragmentShape int8_fragments(const Matrix& source) {
  return {tiles(source), source.n_in / kInt8Block};
}

FragmentShape half_fragments(const Matrix& source) {
  return {tiles(source), (source.n_in + 31) / 32 * 2};
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
        d[2 * (o % 8) + o / 8] = block.d;
        for (int t = 0; t < kLanesOfOutput; ++t) store_words(to, o, t, block.q + 8 * t);
      }
    }
  }
}

size_t repack_half(const Matrix& source, int begin, int end, uint16_t* w) {
  SB_CHECK(begin >= 0 && end <= tiles(source));
  auto* to = reinterpret_cast<std::byte*>(w);
  const auto* floats = reinterpret_cast<const float*>(source.data);
  const auto* halves = reinterpret_cast<const uint16_t*>(source.data);  // or bfloats
  const auto* blocks = reinterpret_cast<const BlockQ8_0*>(source.data);
  switch (source.type) {
    case DType::kF32:
      return repack_rows(source, begin, end, to, [floats](size_t at, int count, uint16_t* half) {
        size_t too_large = 0;
        for (int k = 0; k < count; ++k) half[k] = rounded(floats[at + k], too_large);
        return too_large;
      });
    case DType::kF16:
      return repack_rows(source, begin, end, to, [halves](size_t at, int count, uint16_t* half) {
        std::copy_n(halves + at, count, half);
        return size_t{0};
      });
    case DType::kBF16:
      return repack_rows(source, begin, end, to, [halves](size_t at, int count, uint16_t* half) {
        size_t too_large = 0;
        for (int k = 0; k < count; ++k)
          half[k] = rounded(bfloat_to_float(halves[at + k]), too_large);
        return too_large;
      });
    case DType::kQ8_0:
      return repack_rows(source, begin, end, to, [blocks](size_t at, int count, uint16_t* half) {
        const BlockQ8_0& block = blocks[at / kInt8Block];
        const int8_t* q = block.q + at % kInt8Block;
        const float d = half_to_float(block.d);
        size_t too_large = 0;
        for (int k = 0; k < count; ++k) half[k] = rounded(d * static_cast<float>(q[k]), too_large);
        return too_large;
      });
    default:
      SB_CHECK(!"matrix of a type that FP16 fragments are not made of");
  }
  return 0;
}

}  // namespace specbound
