// The K/V cache on a GPU: FP16, as attention kernels read it (KvLayer of kernels/layouts.h), and
// the angles of the positions in it.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cpu/rope.h"
#include "engine/cuda/device.h"
#include "engine/row_paths.h"
#include "kernels/layouts.h"
#include "model/config.h"

namespace specbound {

// A path as kernels::RowTree has it.
uint64_t packed_path(const RowPath& row);

class DeviceKv {
 public:
  DeviceKv(Device& device, const ModelConfig& config, int n_ctx);

  kernels::KvLayer layer(int layer) const;
  // Waits. K and V (kv_dim each) of a position.
  void read(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const;
  // K and V of the path to `row`, in a round whose root is at `pos`, move to their positions at
  // every layer.
  void keep_path(int pos, const RowPath& row) const;
  size_t bytes() const { return data_.bytes(); }  // of keys and values

 private:
  Device& device_;
  int n_layers_, n_kv_heads_, head_dim_, n_ctx_;
  DeviceMemory<uint16_t> data_;
  PinnedMemory<uint16_t> read_;  // (2, kv_dim)
};

// Angles of rotary embedding by position (engine/cpu/rope.h), uploaded as far as positions come.
class DeviceRope {
 public:
  DeviceRope(Device& device, const ModelConfig& config, const float* factors, int n_ctx);

  // Makes positions 0..pos available to what is launched from now on. Waits for the stream where
  // there are new ones.
  void ensure(int pos);
  const float* cosine() const { return cosine_.data(); }  // (n_ctx, rope_dim)
  const float* sine() const { return sine_.data(); }

 private:
  Device& device_;
  Rope rope_;
  const int rope_dim_, n_ctx_;
  int reached_ = 0;  // positions
  DeviceMemory<float> cosine_, sine_;
  PinnedMemory<float> staged_;  // (2, kReach, rope_dim)
};

}  // namespace specbound
