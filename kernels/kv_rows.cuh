// K and V as the cache has them (KvLayer), FP16 or INT8: where a position's numbers and scales lie,
// what they are as floats, and how a finished row becomes them. Kernels are written over a type of
// these; what is done with scales is theirs.
#pragma once

#include "float_formula.cuh"
#include "layouts.h"
#include "quantize.cuh"

namespace specbound::kernels {

// A Pair is two numbers that lie together, the first one below.
struct KvF16 {
  using Number = uint16_t;
  using Pair = uint32_t;
  static constexpr bool kScaled = false;

  static SPECBOUND_DEVICE float value(Number x) { return half_float(x); }
  static SPECBOUND_DEVICE float first(Pair two) {
    return half_float(static_cast<uint16_t>(two & 0xffffu));
  }
  static SPECBOUND_DEVICE float second(Pair two) {
    return half_float(static_cast<uint16_t>(two >> 16));
  }
};

struct KvI8 {
  using Number = uint8_t;
  using Pair = uint16_t;
  static constexpr bool kScaled = true;

  // Less its scale. With the sign turned over the byte is what stands in the last places of 2^23.
  static SPECBOUND_DEVICE float value(Number x) {
    return float_of(uint32_t{x} ^ 0x4b000080u) - 8388736.0f;
  }
  static SPECBOUND_DEVICE float first(Pair two) { return value(static_cast<Number>(two & 0xffu)); }
  static SPECBOUND_DEVICE float second(Pair two) { return value(static_cast<Number>(two >> 8)); }
};

// Of the scales that lie behind a block, in the unit of its numbers, and of all of the block.
template <class Kv>
constexpr int scale_numbers(int head_dim) {
  return Kv::kScaled ? kv_scales(true, head_dim) * kKeyBlock * 2 : 0;
}
template <class Kv>
constexpr int block_numbers(int head_dim) {
  return kKeyBlock * head_dim + scale_numbers<Kv>(head_dim);
}

// Where one position's key or value is: number d, and the scale of numbers 32 b and on.
template <class Kv>
struct KvRow {
  typename Kv::Number* numbers;
  int step;          // from a number to the next
  uint16_t* scales;  // 16 apart

  SPECBOUND_DEVICE typename Kv::Number& number(int d) const { return numbers[step * d]; }
  SPECBOUND_DEVICE uint16_t& scale(int b) const { return scales[kKeyBlock * b]; }
};

// Of position `at` of a block of keys, and of a block of values.
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> key_of_block(typename Kv::Number* block, int head_dim, int at) {
  return {block + at, kKeyBlock, reinterpret_cast<uint16_t*>(block + kKeyBlock * head_dim) + at};
}
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> value_of_block(typename Kv::Number* block, int head_dim, int at) {
  return {block + at * head_dim, 1, reinterpret_cast<uint16_t*>(block + kKeyBlock * head_dim) + at};
}

// The block of K/V head `head` in `k_or_v` of a layer with n_ctx positions that has `place`.
template <class Kv>
SPECBOUND_DEVICE typename Kv::Number* block_at(void* k_or_v, int n_ctx, int head_dim, int head,
                                               int place) {
  const size_t numbers = block_numbers<Kv>(head_dim);
  const int blocks = n_ctx / kKeyBlock;
  auto* begin = static_cast<typename Kv::Number*>(k_or_v);
  // One product or two: what spares ptxas the registers that attention lacks.
  if constexpr (Kv::kScaled) {
    return begin + static_cast<size_t>(blocks * head + place / kKeyBlock) * numbers;
  } else {
    return begin + static_cast<size_t>(head) * blocks * numbers + place / kKeyBlock * numbers;
  }
}
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> key_at(const KvLayer& kv, int head_dim, int head, int place) {
  return key_of_block<Kv>(block_at<Kv>(kv.k, kv.n_ctx, head_dim, head, place), head_dim,
                          place % kKeyBlock);
}
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> value_at(const KvLayer& kv, int head_dim, int head, int place) {
  return value_of_block<Kv>(block_at<Kv>(kv.v, kv.n_ctx, head_dim, head, place), head_dim,
                            place % kKeyBlock);
}

// Of up to 32 numbers the scale, by their largest magnitude_bits().
struct KvScale {
  uint16_t half;
  float inverse;  // 0: every number is 0
};
SPECBOUND_DEVICE KvScale kv_scale(uint32_t largest) {
  const float amax = float_of(largest);
  if (amax < kQuantFloor) return {0, 0.0f};
  const float least = amax / 127.0f;
  uint32_t half = half_bits(least);
  if (half_float(static_cast<uint16_t>(half)) < least) ++half;
  if (half >= 0x7c00u) return {0x7e00, 0.0f};
  return {static_cast<uint16_t>(half), 1.0f / half_float(static_cast<uint16_t>(half))};
}

// The row value(d), d < head_dim, as the cache has it, to all of `to`, each a KvRow; by a warp.
template <class Kv, class Value, class... Rows>
SPECBOUND_DEVICE void store_row(int head_dim, Value value, const Rows&... to) {
  if constexpr (Kv::kScaled) {
    static_assert(kKvScaled == kWarp);
#pragma unroll 1
    for (int first = 0; first < head_dim; first += kKvScaled) {
      const int d = first + lane_index();
      const float x = d < head_dim ? value(d) : 0.0f;
      const KvScale scale = kv_scale(max_bits_of_32(magnitude_bits(x)));
      const float q = scale.inverse > 0.0f ? round_even(x * scale.inverse) : 0.0f;
      const auto number = static_cast<uint8_t>(static_cast<int>(q));
      if (d < head_dim) ((to.number(d) = number), ...);
      if (lane_index() == 0) ((to.scale(first / kKvScaled) = scale.half), ...);
    }
  } else {
    for (int d = lane_index(); d < head_dim; d += kWarp) {
      const uint16_t half = half_bits(value(d));
      ((to.number(d) = half), ...);
    }
  }
}

}  // namespace specbound::kernels
