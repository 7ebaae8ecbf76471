// How K and V of a head lie in memory on the CPU. A block of keys holds 16 positions, number by
// number, so that lanes are positions; a chunk of values holds 64, row by row:
//
//   keys    blocks of  (head_dim, 16) numbers, INT8: then (scales, 16) FP16
//   values  chunks of  (64, v_stride) numbers, INT8: then (scales, 64) FP16
//
// INT8 (numerics/int8_formula.h has another, of what matmuls read): up to 32 numbers x of a
// position share a scale s, the least half that is no less than max |x| / 127, and are kept as
// rne(x * (1 / s)), which is within +-127 as s is not rounded down. A scale in FP16 and not in FP32
// is 6 % less to read, and its steps of 2^-24 are those of FP16 itself: what is small is no worse
// off than there. max |x| below kQuantFloor: all are 0; no half is so large, or one x is infinite
// or NaN: s is NaN.
//
// Everything is inlined: the kernels of all instruction sets use it (kernels_impl.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kv_type.h"

namespace specbound {

// Attention cuts the K/V range at multiples of this; partial results are combined in chunk order.
inline constexpr int kAttentionChunk = 64;
inline constexpr int kKeyBlock = 16;  // positions of one
inline constexpr int kKvScaled = 32;  // numbers of a position that share a scale

// K and V of one head of one layer.
struct KvHead {
  void* k;       // blocks
  void* v;       // chunks; columns head_dim.. are zero
  int v_stride;  // head_dim rounded up to 16
  KvType type = KvType::kFp16;
};

// Of one position of a head.
[[gnu::always_inline]] constexpr int kv_scales(KvType type, int head_dim) {
  return type == KvType::kInt8 ? (head_dim + kKvScaled - 1) / kKvScaled : 0;
}

[[gnu::always_inline]] constexpr size_t kv_number_bytes(KvType type) {
  return type == KvType::kInt8 ? sizeof(int8_t) : sizeof(uint16_t);
}

// Of the numbers alone, and with the scales behind them. `width` is head_dim or v_stride.
[[gnu::always_inline]] constexpr size_t kv_numbers_bytes(KvType type, int width, int positions) {
  return kv_number_bytes(type) * static_cast<size_t>(width) * static_cast<size_t>(positions);
}
[[gnu::always_inline]] constexpr size_t kv_block_bytes(KvType type, int width, int positions) {
  return kv_numbers_bytes(type, width, positions) +
         sizeof(uint16_t) * static_cast<size_t>(kv_scales(type, width)) *
             static_cast<size_t>(positions);
}
[[gnu::always_inline]] constexpr size_t key_block_bytes(KvType type, int head_dim) {
  return kv_block_bytes(type, head_dim, kKeyBlock);
}
[[gnu::always_inline]] constexpr size_t value_chunk_bytes(KvType type, int v_stride) {
  return kv_block_bytes(type, v_stride, kAttentionChunk);
}

}  // namespace specbound
