#include "engine/cuda/workspace.h"

#include <algorithm>

#include "engine/backend.h"
#include "engine/cuda/device_logits.h"
#include "error.h"
#include "kernels/attention.h"
#include "kernels/prefill_attention.h"
#include "numerics/int8_formula.h"

namespace specbound {

namespace {

size_t padded_values(int max_rows, int widest) {
  return static_cast<size_t>(kernels::panels_of(max_rows)) * kernels::kPanelRows *
         padded_in(widest);
}

// Two FP16 parts, the larger of the two forms.
size_t value_bytes(int max_rows, int widest) {
  return padded_values(max_rows, widest) * 2 * sizeof(uint16_t);
}

// Of INT8's blocks, the larger number.
size_t n_scales(int max_rows, int widest) {
  return padded_values(max_rows, widest) / kQuantBlock;
}

}  // namespace

int padded_in(int n_in) {
  return (n_in + kQuantBlock - 1) / kQuantBlock * kQuantBlock;
}

DeviceRows::DeviceRows(Device& device, int max_rows, int widest)
    : widest_(widest),
      values_(device, value_bytes(max_rows, widest)),
      scales_(device, n_scales(max_rows, widest)) {}

size_t DeviceRows::bytes_needed(int max_rows, int widest) {
  return value_bytes(max_rows, widest) + n_scales(max_rows, widest) * sizeof(float);
}

PreparedRows DeviceRows::rows(int n_in, bool int8) const {
  SB_CHECK(n_in <= widest_);
  PreparedRows rows{int8};
  if (int8) {
    rows.i8 = {n_in, reinterpret_cast<int8_t*>(values_.data()), scales_.data()};
  } else {
    rows.f16 = {padded_in(n_in), reinterpret_cast<uint16_t*>(values_.data()), scales_.data()};
  }
  return rows;
}

namespace {

using kernels::kAttentionChunk;

// Numbers of values, for a Workspace and for what it takes.
struct Sizes {
  int rows;
  size_t h, prefill_h, qkv, attended, act, part_states, part_outputs, arrived, q_tiles, q_scale;

  Sizes(const ModelConfig& c, int n_ctx, int max_rows) {
    rows = max_rows;
    const size_t n = rows, chunks = padded_context(n_ctx) / kAttentionChunk;
    const size_t row_tiles = (n + kernels::kQueryTile - 1) / kernels::kQueryTile;
    h = static_cast<size_t>(kMaxRows) * c.dim;
    prefill_h = n * c.dim;
    qkv = n * std::max(c.q_dim() + 2 * c.kv_dim(), c.dim);
    attended = n * c.q_dim();
    act = n * c.ffn_dim;
    part_states = kMaxRows * c.n_heads * chunks * 2;
    part_outputs = chunks * kMaxRows * c.q_dim();
    arrived = c.n_kv_heads;
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

int grid_context(int positions, int n_ctx) {
  int context = kAttentionChunk;
  while (context < positions) context *= 2;
  return std::min(context, padded_context(n_ctx));
}

namespace {

// Numbers of values, for an ExpertWorkspace and for what it takes.
struct ExpertSizes {
  size_t scores, shares, groups, in, act, out;

  ExpertSizes(const ModelConfig& c, int max_rows)
      : scores(static_cast<size_t>(max_rows) * c.n_experts),
        shares(static_cast<size_t>(max_rows) * c.n_experts_used),
        groups(kernels::most_expert_panels(max_rows, c.n_experts, c.n_experts_used)),
        in(groups * kernels::kPanelRows * c.dim),
        act(groups * kernels::kPanelRows * c.ffn_dim),
        out(in) {}
};

}  // namespace

ExpertWorkspace::ExpertWorkspace(Device& device, const ModelConfig& c, int max_rows) {
  const ExpertSizes sizes(c, max_rows);
  scores = DeviceMemory<float>(device, sizes.scores);
  shares = DeviceMemory<kernels::ExpertShare>(device, sizes.shares);
  groups = DeviceMemory<kernels::ExpertGroup>(device, sizes.groups);
  in_q = DeviceMemory<int8_t>(device, sizes.in);
  in_d = DeviceMemory<float>(device, sizes.in / kQuantBlock);
  act_q = DeviceMemory<int8_t>(device, sizes.act);
  act_d = DeviceMemory<float>(device, sizes.act / kQuantBlock);
  out = DeviceMemory<float>(device, sizes.out);
}

size_t ExpertWorkspace::bytes_needed(const ModelConfig& c, int max_rows) {
  const ExpertSizes sizes(c, max_rows);
  return (sizes.scores + sizes.out) * sizeof(float) + sizes.shares * sizeof(kernels::ExpertShare) +
         sizes.groups * sizeof(kernels::ExpertGroup) + sizes.in + sizes.act +
         (sizes.in + sizes.act) / kQuantBlock * sizeof(float);
}

Workspace::Workspace(Device& device, const ModelConfig& c, int n_ctx, int max_rows)
    : max_rows(max_rows) {
  const Sizes sizes(c, n_ctx, max_rows);
  normed = DeviceRows(device, sizes.rows, c.dim);
  wide_rows = DeviceRows(device, sizes.rows, std::max(c.q_dim(), c.ffn_dim));
  h = DeviceMemory<float>(device, sizes.h);
  prefill_h = DeviceMemory<float>(device, sizes.prefill_h);
  qkv = DeviceMemory<float>(device, sizes.qkv);
  attended = DeviceMemory<float>(device, sizes.attended);
  act = DeviceMemory<float>(device, sizes.act);
  part_states = DeviceMemory<float>(device, sizes.part_states);
  part_outputs = DeviceMemory<float>(device, sizes.part_outputs);
  arrived = DeviceMemory<uint32_t>(device, sizes.arrived);
  device.clear(arrived.data(), arrived.bytes());
  q_tiles = DeviceMemory<uint16_t>(device, sizes.q_tiles);
  q_scale = DeviceMemory<float>(device, sizes.q_scale);
  if (c.n_experts > 0) experts = ExpertWorkspace(device, c, max_rows);
}

size_t kv_cache_bytes(const ModelConfig& c, int n_ctx, KvType type) {
  return size_t{2} * c.n_layers * c.n_kv_heads *
         kernels::kv_bytes(type == KvType::kInt8, c.head_dim, padded_context(n_ctx));
}

size_t Workspace::bytes_needed(const ModelConfig& c, int n_ctx, int max_rows) {
  const Sizes s(c, n_ctx, max_rows);
  const size_t floats =
      s.h + s.prefill_h + s.qkv + s.attended + s.act + s.part_states + s.part_outputs + s.q_scale;
  return floats * sizeof(float) + s.arrived * sizeof(uint32_t) + s.q_tiles * sizeof(uint16_t) +
         DeviceRows::bytes_needed(s.rows, c.dim) +
         DeviceRows::bytes_needed(s.rows, std::max(c.q_dim(), c.ffn_dim)) +
         (c.n_experts > 0 ? ExpertWorkspace::bytes_needed(c, s.rows) : 0);
}

size_t layers_workspace_bytes(const ModelConfig& c, int n_ctx, int max_rows) {
  const size_t angles = size_t{2} * c.n_rotations() * padded_context(n_ctx) * c.rope_dim;
  return Workspace::bytes_needed(c, n_ctx, max_rows) + angles * sizeof(float);
}

size_t cuda_workspace_bytes(const ModelConfig& c, int n_ctx) {
  return layers_workspace_bytes(c, n_ctx, prefill_rows(n_ctx)) +
         DeviceLogits::bytes_needed(c, n_ctx);
}

}  // namespace specbound
