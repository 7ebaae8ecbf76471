// K and V as they are stored (kv_format.h) over the vector operations of a simd_*.h, which is
// included first: a part of kernels_impl.h, and its rules hold here. Attention is written over a
// type of these; it alone decides what is done with scales.
#pragma once

#include "engine/cpu/kernels.h"
#include "numerics/int8_formula.h"

namespace specbound {
namespace {

struct KvFp16 {
  using Number = uint16_t;
  static constexpr KvType kType = KvType::kFp16;
  static constexpr bool kScaled = false;
  static V read(const Number* p) { return load_f16(p); }
};

struct KvInt8 {
  using Number = uint8_t;
  static constexpr KvType kType = KvType::kInt8;
  static constexpr bool kScaled = true;
  static V read(const Number* p) { return load_i8(p); }  // less its scale
};

template <class T>
inline T* bytes_behind(void* p, size_t bytes) {
  return reinterpret_cast<T*>(static_cast<uint8_t*>(p) + bytes);
}

// Key block `block` (head_dim, 16).
template <class Kv>
inline typename Kv::Number* keys_of(const KvHead& head, int block, int head_dim) {
  const size_t before = static_cast<size_t>(block) * key_block_bytes(Kv::kType, head_dim);
  return bytes_behind<typename Kv::Number>(head.k, before);
}
// Its scales (scales, 16).
inline uint16_t* key_scales(const KvHead& head, int block, int head_dim) {
  const size_t before = static_cast<size_t>(block) * key_block_bytes(KvType::kInt8, head_dim);
  return bytes_behind<uint16_t>(head.k,
                                before + kv_numbers_bytes(KvType::kInt8, head_dim, kKeyBlock));
}

// The value at a place (v_stride). Those of a chunk follow one another.
template <class Kv>
inline typename Kv::Number* value_of(const KvHead& head, int place) {
  const size_t chunk = static_cast<size_t>(place / kAttentionChunk);
  const size_t row = static_cast<size_t>(place % kAttentionChunk) * head.v_stride;
  return bytes_behind<typename Kv::Number>(
      head.v,
      chunk * value_chunk_bytes(Kv::kType, head.v_stride) + row * sizeof(typename Kv::Number));
}
// The scales of a chunk's values (scales, 64).
inline uint16_t* value_scales(const KvHead& head, int chunk) {
  const size_t before =
      static_cast<size_t>(chunk) * value_chunk_bytes(KvType::kInt8, head.v_stride);
  return bytes_behind<uint16_t>(
      head.v, before + kv_numbers_bytes(KvType::kInt8, head.v_stride, kAttentionChunk));
}

inline void store_kv_fp16(const float* k, const float* v, int head_dim, int pos,
                          const KvHead& head) {
  uint16_t* keys = keys_of<KvFp16>(head, pos / kKeyBlock, head_dim) + pos % kKeyBlock;
  uint16_t* value = value_of<KvFp16>(head, pos);
  for (int d = 0; d < head_dim; d += 16) {
    const int n = head_dim - d < 16 ? head_dim - d : 16;
    uint16_t half[16];
    store_f16(half, load_n(k + d, n));
    for (int i = 0; i < n; ++i) keys[(d + i) * kKeyBlock] = half[i];
    store_f16(value + d, load_n(v + d, n));
  }
}

// The least half that is no less than x >= 0; NaN where there is none, or x is infinite or NaN.
inline uint16_t half_above(float x) {
  uint16_t half[16];
  store_f16(half, set1(x));
  if (half_scalar(half[0]) < x) ++half[0];
  return half[0] < 0x7c00 ? half[0] : uint16_t{0x7e00};
}

// x (n) as q (32), zero from n on, and the scale that is returned. n <= 32.
inline uint16_t quantize_scaled(const float* x, int n, int8_t* q) {
  const V x0 = load_n(x, n < 16 ? n : 16), x1 = load_n(x + 16, n > 16 ? n - 16 : 0);
  const float amax = max_magnitude(max_bits(abs(x0), abs(x1)));
  const uint16_t scale = amax < kQuantFloor ? uint16_t{0} : half_above(amax / 127.0f);
  if (scale == 0 || scale > 0x7c00) {
    __builtin_memset(q, 0, kKvScaled);
    return scale;
  }
  const V inverse = set1(1.0f / half_scalar(scale));
  store_int8(q, mul(x0, inverse));
  store_int8(q + 16, mul(x1, inverse));
  return scale;
}

inline void store_kv_int8(const float* k, const float* v, int head_dim, int pos,
                          const KvHead& head) {
  const int in_block = pos % kKeyBlock, in_chunk = pos % kAttentionChunk;
  uint8_t* keys = keys_of<KvInt8>(head, pos / kKeyBlock, head_dim) + in_block;
  uint8_t* value = value_of<KvInt8>(head, pos);
  uint16_t* k_scales = key_scales(head, pos / kKeyBlock, head_dim) + in_block;
  uint16_t* v_scales = value_scales(head, pos / kAttentionChunk) + in_chunk;
  for (int d = 0; d < head_dim; d += kKvScaled) {
    const int n = head_dim - d < kKvScaled ? head_dim - d : kKvScaled;
    int8_t q[kKvScaled];
    k_scales[d / kKvScaled * kKeyBlock] = quantize_scaled(k + d, n, q);
    for (int i = 0; i < n; ++i) keys[(d + i) * kKeyBlock] = static_cast<uint8_t>(q[i]);
    v_scales[d / kKvScaled * kAttentionChunk] = quantize_scaled(v + d, n, q);
    const int columns = head.v_stride - d < kKvScaled ? head.v_stride - d : kKvScaled;
    __builtin_memcpy(value + d, q, static_cast<size_t>(columns));
  }
}

void store_kv(const float* k, const float* v, int head_dim, int pos, const KvHead& head) {
  if (head.type == KvType::kInt8) return store_kv_int8(k, v, head_dim, pos, head);
  store_kv_fp16(k, v, head_dim, pos, head);
}

}  // namespace
}  // namespace specbound
