// The K/V cache on a GPU, FP16 or INT8, as attention kernels read it (KvLayer of
// kernels/layouts.h), and the angles of the positions in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/cpu/rope.h"
#include "engine/cuda/device.h"
#include "engine/kv_type.h"
#include "engine/row_paths.h"
#include "kernels/layouts.h"
#include "model/config.h"

namespace specbound {

// A path as kernels::RowTree has it.
uint64_t packed_path(const RowPath& row);

class DeviceKv {
 public:
  DeviceKv(Device& device, const ModelConfig& config, int n_ctx, int n_sequences, KvType type);

  KvType type() const { return type_; }

  // Of sequence 0..n_sequences-1.
  kernels::KvLayer layer(int layer, int sequence) const;
  // Bytes from what one sequence has to the same of the next one: all its keys and values.
  size_t next_sequence() const { return next_sequence_; }
  // Waits. K and V (kv_dim each) of a position, as BackendInspection::read_kv().
  void read(int layer, int sequence, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const;
  // K and V of the path to `row`, in a round of `sequence` whose root is at `pos`, move to their
  // positions at every layer.
  void keep_path(int sequence, int pos, const RowPath& row) const;
  // K and V of the first n positions of sequence `from` become those of sequence `to`, another.
  void copy_prefix(int from, int to, int n) const;

 private:
  size_t next_layer() const { return next_sequence_ / n_layers_; }  // bytes

  Device& device_;
  KvType type_;
  int n_layers_, n_kv_heads_, head_dim_, n_ctx_;
  size_t next_sequence_;
  DeviceMemory<std::byte> data_;  // (n_sequences, n_layers, {K, V})
  PinnedMemory<uint16_t> read_;   // (2, kv_dim)
};

// Angles of rotary embedding by position (engine/cpu/rope.h), uploaded as far as positions come.
class DeviceRope {
 public:
  DeviceRope(Device& device, const ModelConfig& config, const float* factors, int n_ctx);

  // Makes positions 0..pos available to what is launched from now on. Waits for the stream where
  // there are new ones.
  void ensure(int pos);
  // (n_ctx, rope_dim) of a rotation (ModelConfig::rotation_of).
  const float* cosine(int rotation) const { return cosine_.data() + rotation * each_; }
  const float* sine(int rotation) const { return sine_.data() + rotation * each_; }

 private:
  void upload(int n, int rotation);

  Device& device_;
  Rope rope_;
  const int rope_dim_, n_ctx_, n_rotations_;
  const size_t each_;  // numbers of one rotation's cosines
  int reached_ = 0;    // positions
  DeviceMemory<float> cosine_, sine_;
  PinnedMemory<float> staged_;  // (2, kReach, rope_dim)
};

}  // namespace specbound
