// Layout and sizes of the K/V cache. Its blocks are chunks: what a kernel reads of a head at once.
#include "engine/cpu/kv_cache.h"

#include <algorithm>

namespace specbound {

namespace {

// Whole chunks: a kernel reads the masked end of the last one too.
size_t positions(int n_ctx) {
  return round_up<size_t>(n_ctx, kAttentionChunk);
}

}  // namespace

size_t KvCache::bytes_needed(const ModelConfig& config, int n_ctx, int without) {
  const size_t per_position = config.head_dim + round_up(config.head_dim, 16);
  return positions(n_ctx) * per_position * config.n_kv_heads * (config.n_layers - without) *
         sizeof(uint16_t);
}

KvCache::KvCache(const ModelConfig& config, int n_ctx, int without)
    : without_(without),
      n_kv_heads_(config.n_kv_heads),
      head_dim_(config.head_dim),
      v_stride_(round_up(config.head_dim, 16)) {
  k_size_ = positions(n_ctx) * head_dim_;
  v_size_ = positions(n_ctx) * v_stride_;
  data_ =
      Pages<uint16_t>((k_size_ + v_size_) * n_kv_heads_ * (config.n_layers - without), "K/V cache");
}

size_t KvCache::offset(int layer, int kv_head) const {
  return (static_cast<size_t>(layer - without_ - 1) * n_kv_heads_ + kv_head) * (k_size_ + v_size_);
}

KvHead KvCache::head(int layer, int kv_head) {
  uint16_t* k = data_.data() + offset(layer, kv_head);
  return {k, k + k_size_, v_stride_};
}

void KvCache::copy(int layer, int from, int to) {
  const auto key = [&](int pos) { return static_cast<size_t>(pos / kKeyBlock) * head_dim_; };
  for (int h = 0; h < n_kv_heads_; ++h) {
    const KvHead head = this->head(layer, h);
    for (int d = 0; d < head_dim_; ++d) {
      head.k[(key(to) + d) * kKeyBlock + to % kKeyBlock] =
          head.k[(key(from) + d) * kKeyBlock + from % kKeyBlock];
    }
    const uint16_t* v = head.v + static_cast<size_t>(from) * v_stride_;
    std::copy_n(v, head_dim_, head.v + static_cast<size_t>(to) * v_stride_);
  }
}

// Blocks are a head's own, so of each there are at most two pages that are half in one: those stay.
void KvCache::give_back(int n) {
  const size_t kept = positions(n);
  if (kept >= positions(reached_)) return;
  reached_ = n;
  if (n == 0) return data_.give_back(0, data_.size());
  const size_t k = kept * head_dim_, v = kept * v_stride_;
  for (size_t at = 0; at < data_.size(); at += k_size_ + v_size_) {  // each head of each layer
    data_.give_back(at + k, at + k_size_);
    data_.give_back(at + k_size_ + v, at + k_size_ + v_size_);
  }
}

size_t KvCache::bytes_held() const {
  const size_t n_heads = data_.size() / (k_size_ + v_size_);
  return positions(reached_) * (head_dim_ + v_stride_) * n_heads * sizeof(uint16_t);
}

void KvCache::copy_prefix(const KvCache& other, int n) {
  const size_t k = round_up<size_t>(n, kKeyBlock) * head_dim_;  // whole blocks
  const size_t v = static_cast<size_t>(n) * v_stride_;
  for (size_t at = 0; at < data_.size(); at += k_size_ + v_size_) {  // each head of each layer
    std::copy_n(other.data_.data() + at, k, data_.data() + at);
    std::copy_n(other.data_.data() + at + k_size_, v, data_.data() + at + k_size_);
  }
}

void KvCache::read(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const {
  for (int h = 0; h < n_kv_heads_; ++h) {
    const uint16_t* head_k = data_.data() + offset(layer, h);
    const uint16_t* head_v = head_k + k_size_ + static_cast<size_t>(pos) * v_stride_;
    const size_t block = static_cast<size_t>(pos / kKeyBlock) * head_dim_;
    for (int d = 0; d < head_dim_; ++d) {
      k[static_cast<size_t>(h) * head_dim_ + d] = head_k[(block + d) * kKeyBlock + pos % kKeyBlock];
      v[static_cast<size_t>(h) * head_dim_ + d] = head_v[d];
    }
  }
}

}  // namespace specbound
