// The rows under way on a GPU between two steps of a layer: 1..16 of a decode pass, or a chunk of
// up to 512 of a prefill where it runs those, which take turns in the same memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device.h"
#include "engine/kv_type.h"
#include "kernels/experts.h"
#include "kernels/layouts.h"
#include "model/config.h"

namespace specbound {

// Rows as matmuls take them: one of the two.
struct PreparedRows {
  bool int8 = false;
  kernels::RowsI8 i8{};
  kernels::RowsF16 f16{};
};

// Rows are padded with zeros to whole blocks of 32.
int padded_in(int n_in);

// For up to `max_rows` rows of up to `widest` values, prepared either way.
class DeviceRows {
 public:
  DeviceRows() = default;
  DeviceRows(Device& device, int max_rows, int widest);
  static size_t bytes_needed(int max_rows, int widest);

  PreparedRows rows(int n_in, bool int8) const;  // n_in <= widest

 private:
  int widest_ = 0;
  DeviceMemory<std::byte> values_;
  DeviceMemory<float> scales_;
};

// Of the K/V cache: whole chunks of attention.
int padded_context(int n_ctx);

// Positions for which attention's grid is made where so many are needed: graphs are made for powers
// of two.
int grid_context(int positions, int n_ctx);

// Rows of a pass at most.
int prefill_rows(int n_ctx);

// Rows on their way through the experts of a mixture (kernels/experts.h). A place is one of a row's
// copy, and there is a panel of them for each group that there may be.
struct ExpertWorkspace {
  ExpertWorkspace() = default;
  ExpertWorkspace(Device& device, const ModelConfig& config, int max_rows);
  static size_t bytes_needed(const ModelConfig& config, int max_rows);

  DeviceMemory<float> scores;                 // (rows, n_experts)
  DeviceMemory<kernels::ExpertShare> shares;  // (rows, n_experts_used)
  DeviceMemory<kernels::ExpertGroup> groups;  // (panels)
  DeviceMemory<int8_t> in_q, act_q;           // (places, dim), (places, ffn_dim), quantized
  DeviceMemory<float> in_d, act_d;            // the same, of each block
  DeviceMemory<float> out;                    // (places, dim)
};

struct Workspace {
  // For passes of up to max_rows rows, at least kMaxRows.
  Workspace(Device& device, const ModelConfig& config, int n_ctx, int max_rows);
  static size_t bytes_needed(const ModelConfig& config, int n_ctx, int max_rows);

  int max_rows;          // of a pass
  DeviceRows normed;     // (rows, dim)
  DeviceRows wide_rows;  // (rows, q_dim or ffn_dim)

  DeviceMemory<float> h;          // H (16, dim)
  DeviceMemory<float> prefill_h;  // (rows, dim)
  DeviceMemory<float> qkv;        // (rows, q_dim + 2 kv_dim); later (rows, dim) for a post norm
  DeviceMemory<float> attended;   // (rows, q_dim)
  DeviceMemory<float> act;        // (rows, ffn_dim), for FP16 weights
  ExpertWorkspace experts;        // of a mixture

  DeviceMemory<float> part_states;   // (16, n_heads, n_ctx/64, 2)
  DeviceMemory<float> part_outputs;  // (n_ctx/64, 16, q_dim)
  DeviceMemory<uint32_t> arrived;    // (n_kv_heads): zeros between kernels
  DeviceMemory<uint16_t> q_tiles;    // of prefill: (n_heads, row tiles, D/16, 2, 32, 8)
  DeviceMemory<float> q_scale;       // of prefill: (n_heads, row tiles, 16)
};

// Keys and values of n_ctx positions, at all layers.
size_t kv_cache_bytes(const ModelConfig& config, int n_ctx, KvType type);

// A Workspace and the angles of all positions: known before any of it is taken; and beside those
// of a whole model, what draws need.
size_t layers_workspace_bytes(const ModelConfig& config, int n_ctx, int max_rows);
size_t cuda_workspace_bytes(const ModelConfig& config, int n_ctx);

}  // namespace specbound
