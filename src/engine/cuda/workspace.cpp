#include "engine/cuda/workspace.h"

#include <algorithm>

#include "engine/backend.h"
#include "engine/cuda/device_draws.h"
#include "kernels/attention.h"
#include "kernels/prefill_attention.h"

namespace specbound {
namespace {

using kernels::kAttentionChunk;

// Numbers of values, for a Workspace and for what it takes.
struct Sizes {
  int rows;
  size_t h, prefill_h, qkv, attended, act, part_states, part_outputs, q_tiles, q_scale;

  Sizes(const ModelConfig& c, int n_ctx) {
    rows = prefill_rows(n_ctx);
    const size_t n = rows, chunks = padded_context(n_ctx) / kAttentionChunk;
    const size_t row_tiles = (n + kernels::kQueryTile - 1) / kernels::kQueryTile;
    h = static_cast<size_t>(kMaxRows) * c.dim;
    prefill_h = n * c.dim;
    qkv = n * std::max(c.q_dim() + 2 * c.kv_dim(), c.dim);
    attended = n * c.q_dim();
    act = n * c.ffn_dim;
    part_states = kMaxRows * c.n_heads * chunks * 2;
    part_outputs = chunks * kMaxRows * c.q_dim();
    // Tiles of 16 rows by the padded head, each value in two halves.
    q_tiles =
        c.n_heads * row_tiles * kernels::kQueryTile * kernels::prefill_head_dim(c.head_dim) * 2;
    q_scale = c.n_heads * row_tiles * kernels::kQueryTile;
  }
};

}  // namespace

int prefill_rows(int n_ctx) {
  return std::max(std::min(kPrefillChunk, n_ctx), kMaxRows);
}

int padded_context(int n_ctx) {
  return (n_ctx + kAttentionChunk - 1) / kAttentionChunk * kAttentionChunk;
}

Workspace::Workspace(Device& device, const ModelConfig& c, int n_ctx) {
  const Sizes sizes(c, n_ctx);
  max_rows = sizes.rows;
  normed = DeviceRows(device, sizes.rows, c.dim);
  wide_rows = DeviceRows(device, sizes.rows, std::max(c.q_dim(), c.ffn_dim));
  h = DeviceMemory<float>(device, sizes.h);
  prefill_h = DeviceMemory<float>(device, sizes.prefill_h);
  qkv = DeviceMemory<float>(device, sizes.qkv);
  attended = DeviceMemory<float>(device, sizes.attended);
  act = DeviceMemory<float>(device, sizes.act);
  part_states = DeviceMemory<float>(device, sizes.part_states);
  part_outputs = DeviceMemory<float>(device, sizes.part_outputs);
  q_tiles = DeviceMemory<uint16_t>(device, sizes.q_tiles);
  q_scale = DeviceMemory<float>(device, sizes.q_scale);
}

size_t kv_cache_bytes(const ModelConfig& c, int n_ctx) {
  return size_t{2} * c.n_layers * padded_context(n_ctx) * c.kv_dim() * sizeof(uint16_t);
}

size_t cuda_workspace_bytes(const ModelConfig& c, int n_ctx) {
  const Sizes s(c, n_ctx);
  const size_t floats =
      s.h + s.prefill_h + s.qkv + s.attended + s.act + s.part_states + s.part_outputs + s.q_scale;
  const size_t angles = size_t{2} * padded_context(n_ctx) * c.rope_dim;
  return (floats + angles) * sizeof(float) + s.q_tiles * sizeof(uint16_t) +
         DeviceRows::bytes_needed(s.rows, c.dim) +
         DeviceRows::bytes_needed(s.rows, std::max(c.q_dim(), c.ffn_dim)) +
         DeviceDraws::bytes_needed(c, n_ctx);
}

}  // namespace specbound
