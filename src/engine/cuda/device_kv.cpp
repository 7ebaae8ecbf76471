#include "engine/cuda/device_kv.h"

#include <algorithm>
#include <cstring>

#include "engine/cuda/workspace.h"
#include "error.h"
#include "kernels/copy_prefix.h"
#include "kernels/gather_kv.h"
#include "kernels/keep_path.h"

namespace specbound {
namespace {

constexpr int kReach = 1024;  // positions whose angles are uploaded together

}  // namespace

uint64_t packed_path(const RowPath& row) {
  static_assert(kMaxRows == kernels::kMaxDecodeRows && kMaxRows * 4 == 64);
  uint64_t path = 0;
  for (int d = 0; d <= row.depth; ++d) path |= static_cast<uint64_t>(row.slots[d]) << (4 * d);
  return path;
}

DeviceKv::DeviceKv(Device& device, const ModelConfig& config, int n_ctx, int n_sequences,
                   KvType type)
    : device_(device),
      type_(type),
      n_layers_(config.n_layers),
      n_kv_heads_(config.n_kv_heads),
      head_dim_(config.head_dim),
      n_ctx_(padded_context(n_ctx)),
      next_sequence_(kv_cache_bytes(config, n_ctx, type)),
      data_(device, next_sequence_ * n_sequences),
      read_(device, size_t{2} * config.kv_dim()) {}

kernels::KvLayer DeviceKv::layer(int layer, int sequence) const {
  std::byte* k = data_.data() + sequence * next_sequence_ + (layer - 1) * next_layer();
  return {k, k + next_layer() / 2, n_ctx_, type_ == KvType::kInt8};
}

void DeviceKv::read(int layer, int sequence, int pos, std::span<uint16_t> k,
                    std::span<uint16_t> v) const {
  uint16_t *k_read = read_.data(), *v_read = k_read + k.size();
  kernels::gather_kv({this->layer(layer, sequence), n_kv_heads_, head_dim_, pos, k_read, v_read},
                     device_.stream());
  device_.synchronize();
  std::copy_n(k_read, k.size(), k.data());
  std::copy_n(v_read, v.size(), v.data());
}

void DeviceKv::keep_path(int sequence, int pos, const RowPath& row) const {
  if (row.straight) return;
  kernels::KeepPath keep{};
  keep.kv = layer(1, sequence);
  keep.next_layer = next_layer();
  keep.n_layers = n_layers_;
  keep.n_kv_heads = n_kv_heads_;
  keep.head_dim = head_dim_;
  keep.root = pos;
  keep.depth = row.depth;
  keep.path = packed_path(row);
  kernels::keep_path(keep, device_.stream());
}

void DeviceKv::copy_prefix(int from, int to, int n) const {
  if (n == 0) return;
  kernels::CopyPrefix copy{};
  copy.from = layer(1, from);
  copy.to = layer(1, to);
  copy.next_layer = next_layer();
  copy.n_layers = n_layers_;
  copy.n_kv_heads = n_kv_heads_;
  copy.head_dim = head_dim_;
  copy.n = n;
  kernels::copy_prefix(copy, device_.stream());
}

DeviceRope::DeviceRope(Device& device, const ModelConfig& config, const float* factors, int n_ctx)
    : device_(device),
      rope_(config, factors),
      rope_dim_(config.rope_dim),
      n_ctx_(padded_context(n_ctx)),
      n_rotations_(config.n_rotations()),
      each_(static_cast<size_t>(n_ctx_) * rope_dim_),
      cosine_(device, n_rotations_ * each_),
      sine_(device, n_rotations_ * each_),
      staged_(device, size_t{2} * kReach * rope_dim_) {}

void DeviceRope::ensure(int pos) {
  SB_CHECK(pos < n_ctx_);
  while (reached_ <= pos) {
    const int n = std::min(kReach, n_ctx_ - reached_);
    rope_.ensure(reached_ + n - 1);
    for (int rotation = 0; rotation < n_rotations_; ++rotation) upload(n, rotation);
    reached_ += n;
  }
}

// The angles of the n positions behind those reached.
void DeviceRope::upload(int n, int rotation) {
  const size_t row = rope_dim_, bytes = row * sizeof(float);
  const size_t to = rotation * each_ + reached_ * row;
  float *cosine = staged_.data(), *sine = cosine + kReach * row;
  for (int i = 0; i < n; ++i) {
    const float* angles = rope_.angles(reached_ + i, rotation);
    std::memcpy(cosine + i * row, angles, bytes);
    std::memcpy(sine + i * row, angles + row, bytes);
  }
  device_.copy_in(cosine_.data() + to, cosine, n * bytes);
  device_.copy_in(sine_.data() + to, sine, n * bytes);
  device_.synchronize();
}

}  // namespace specbound
