// One head of one row, by one warp: bias, norm and rope in the CPU's order of operations, and its
// key and value into the cache; where a row is, and which keys it sees.
#pragma once

#include "attention.h"
#include "float_formula.cuh"
#include "kv_rows.cuh"

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

// The slot of the ancestor at `depth` in a RowTree's path.
SPECBOUND_DEVICE int slot_at(uint64_t path, int depth) {
  return static_cast<int>(path >> (4 * depth) & 15);
}

// The position of row `row` of a pass.
SPECBOUND_DEVICE int position_of(const Pass& pass, const RowTree* tree, int row) {
  return tree == nullptr ? pass.pos + row : pass.pos - pass.slot + tree->depth[row];
}

// y (head_dim) = rope(norm(x + bias)) at position `pos`; bias and norm may be null. y is memory
// that only this warp uses, and everyone in it is done with.
SPECBOUND_DEVICE void finish_head(const Heads& heads, const float* x, const float* bias,
                                  const float* norm, int pos, float* y) {
  const int lane = lane_index(), n = heads.head_dim, rotated = heads.rope_dim;
  float squares = 0.0f;  // virtual lane k mod 32
#pragma unroll 2
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
#pragma unroll 2
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
#pragma unroll 1
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

// Key `head` of row `row` as the matmul left it; its value is kv_dim behind it.
SPECBOUND_DEVICE const float* key_of(const Heads& heads, int row, int head) {
  const size_t stride = static_cast<size_t>(q_dim_of(heads)) + 2 * kv_dim_of(heads);
  return heads.qkv + row * stride + q_dim_of(heads) + head * heads.head_dim;
}

// The key k at position `pos`; y as above.
SPECBOUND_DEVICE void finish_key(const Heads& heads, const float* k, int head, int pos, float* y) {
  finish_head(heads, k, offset_or_null(heads.k_bias, head * heads.head_dim), heads.k_norm, pos, y);
}

// Number `d` of the value v, with its bias.
SPECBOUND_DEVICE float finished_value(const Heads& heads, const float* v, int head, int d) {
  const int first = head * heads.head_dim;
  return heads.v_bias != nullptr ? v[d] + heads.v_bias[first + d] : v[d];
}

// Key and value of K/V head `head` of row `row`, at position `pos`, into the cache at `place`; y
// (head_dim): scratch, as above.
template <class Kv>
SPECBOUND_DEVICE void store_key_value(const Heads& heads, int row, int head, int pos, int place,
                                      float* y) {
  const float *k = key_of(heads, row, head), *v = k + kv_dim_of(heads);
  finish_key(heads, k, head, pos, y);
  store_row<Kv>(
      heads.head_dim, [&](int d) { return y[d]; },
      key_at<Kv>(heads.kv, heads.head_dim, head, place));
  store_row<Kv>(
      heads.head_dim, [&](int d) { return finished_value(heads, v, head, d); },
      value_at<Kv>(heads.kv, heads.head_dim, head, place));
  __syncwarp();
}

}  // namespace specbound::kernels
