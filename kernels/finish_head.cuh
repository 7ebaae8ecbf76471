// One head of one row, by one warp: bias, norm and rope in the CPU's order of operations, and a
// position's key and value into the cache; which keys a row sees.
#pragma once

#include "attention.h"
#include "float_formula.cuh"

namespace specbound::kernels {

SPECBOUND_DEVICE int q_dim_of(const Heads& heads) {
  return heads.n_heads * heads.head_dim;
}
SPECBOUND_DEVICE int kv_dim_of(const Heads& heads) {
  return heads.n_kv_heads * heads.head_dim;
}

// The first key that a row at `pos` sees.
SPECBOUND_DEVICE int first_key(const Heads& heads, int pos) {
  return heads.window > 0 && pos >= heads.window ? pos - heads.window + 1 : 0;
}

// y (head_dim) = rope(norm(x + bias)) at position `pos`; bias and norm may be null. y is memory
// that only this warp uses, and everyone in it is done with.
SPECBOUND_DEVICE void finish_head(const Heads& heads, const float* x, const float* bias,
                                  const float* norm, int pos, float* y) {
  const int lane = lane_index(), n = heads.head_dim, rotated = heads.rope_dim;
  float squares = 0.0f;  // virtual lane k mod 32
  for (int k = lane; k < n; k += kWarp) {
    const float value = bias != nullptr ? x[k] + bias[k] : x[k];
    y[k] = value;
    squares = fused(value, value, squares);
  }
  float scale = 1.0f;
  if (norm != nullptr) {
    const float mean = sum_of_32(squares) / static_cast<float>(n);
    scale = 1.0f / square_root(mean + heads.norm_eps);
  }
  __syncwarp();
  const float* cosine = heads.cosine + static_cast<size_t>(pos) * rotated;
  const float* sine = heads.sine + static_cast<size_t>(pos) * rotated;
  for (int i = lane; i < rotated / 2; i += kWarp) {
    const int first = heads.interleaved ? 2 * i : i;
    const int second = heads.interleaved ? first + 1 : first + rotated / 2;
    float a = y[first], b = y[second];
    if (norm != nullptr) {
      a = (a * scale) * norm[first];
      b = (b * scale) * norm[second];
    }
    y[first] = a * cosine[first] + b * sine[first];
    y[second] = b * cosine[second] + a * sine[second];
  }
  if (norm != nullptr) {
    for (int k = rotated + lane; k < n; k += kWarp) y[k] = (y[k] * scale) * norm[k];
  }
  __syncwarp();
}

SPECBOUND_DEVICE const float* offset_or_null(const float* p, int offset) {
  return p != nullptr ? p + offset : nullptr;
}

// Query head `head` of row `row`, at position `pos`; y as above.
SPECBOUND_DEVICE void finish_query(const Heads& heads, int row, int head, int pos, float* y) {
  const size_t stride = static_cast<size_t>(q_dim_of(heads)) + 2 * kv_dim_of(heads);
  const int first = head * heads.head_dim;
  finish_head(heads, heads.qkv + row * stride + first, offset_or_null(heads.q_bias, first),
              heads.q_norm, pos, y);
}

// Key and value of K/V head `head` of row `row` into the cache at `pos`; y (head_dim): scratch, as
// above.
SPECBOUND_DEVICE void store_key_value(const Heads& heads, int row, int head, int pos, float* y) {
  const size_t stride = static_cast<size_t>(q_dim_of(heads)) + 2 * kv_dim_of(heads);
  const int n = heads.head_dim, first = head * n;
  const float* k = heads.qkv + row * stride + q_dim_of(heads) + first;
  const float* v = k + kv_dim_of(heads);
  finish_head(heads, k, offset_or_null(heads.k_bias, first), heads.k_norm, pos, y);
  const size_t begin = static_cast<size_t>(head) * heads.kv.n_ctx * n;
  uint16_t* key = heads.kv.k + begin + static_cast<size_t>(pos / 16) * n * 16 + pos % 16;
  uint16_t* value = heads.kv.v + begin + static_cast<size_t>(pos) * n;
  for (int d = lane_index(); d < n; d += kWarp) {
    key[static_cast<size_t>(d) * 16] = half_bits(y[d]);
    value[d] = half_bits(heads.v_bias != nullptr ? v[d] + heads.v_bias[first + d] : v[d]);
  }
  __syncwarp();
}

}  // namespace specbound::kernels
