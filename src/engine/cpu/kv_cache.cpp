// Sizes of the K/V cache, and its positions one by one. What it gives back are chunks: what a
// kernel reads of a head at once.
#include "engine/cpu/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace specbound {

namespace {

// Whole chunks: a kernel reads the masked end of the last one too.
int positions(int n_ctx) {
  return round_up(n_ctx, kAttentionChunk);
}

size_t key_bytes(KvType type, int head_dim, int n) {
  return static_cast<size_t>((n + kKeyBlock - 1) / kKeyBlock) * key_block_bytes(type, head_dim);
}

// Of whole chunks.
size_t value_bytes(KvType type, int v_stride, int n) {
  return static_cast<size_t>(positions(n) / kAttentionChunk) * value_chunk_bytes(type, v_stride);
}

}  // namespace

size_t KvCache::bytes_needed(const ModelConfig& config, int n_ctx, int without, KvType type) {
  const size_t of_a_head = key_bytes(type, config.head_dim, positions(n_ctx)) +
                           value_bytes(type, v_stride_of(config.head_dim), n_ctx);
  return of_a_head * config.n_kv_heads * (config.n_layers - without);
}

KvCache::KvCache(const ModelConfig& config, int n_ctx, int without, KvType type)
    : type_(type),
      without_(without),
      n_kv_heads_(config.n_kv_heads),
      head_dim_(config.head_dim),
      v_stride_(v_stride_of(config.head_dim)),
      k_size_(key_bytes(type, head_dim_, positions(n_ctx))),
      v_size_(value_bytes(type, v_stride_, n_ctx)),
      data_(bytes_needed(config, n_ctx, without, type), "K/V cache") {}

size_t KvCache::offset(int layer, int kv_head) const {
  return (static_cast<size_t>(layer - without_ - 1) * n_kv_heads_ + kv_head) * (k_size_ + v_size_);
}

KvHead KvCache::head(int layer, int kv_head) {
  std::byte* k = data_.data() + offset(layer, kv_head);
  return {k, k + k_size_, v_stride_, type_};
}

KvCache::Places KvCache::places(int pos) const {
  const int in_block = pos % kKeyBlock, in_chunk = pos % kAttentionChunk;
  const size_t number = kv_number_bytes(type_), scale = sizeof(uint16_t);
  const size_t k = key_bytes(type_, head_dim_, pos - in_block);
  const size_t v = k_size_ + value_bytes(type_, v_stride_, pos - in_chunk);
  const size_t k_scales = k + kv_numbers_bytes(type_, head_dim_, kKeyBlock);
  const size_t v_scales = v + kv_numbers_bytes(type_, v_stride_, kAttentionChunk);
  return {
      {k + in_block * number, k_scales + in_block * scale, kKeyBlock * number, kKeyBlock * scale},
      {v + static_cast<size_t>(in_chunk) * v_stride_ * number, v_scales + in_chunk * scale, number,
       kAttentionChunk * scale}};
}

void KvCache::copy(int layer, int from, int to) {
  const Places a = places(from), b = places(to);
  const int n_scales = kv_scales(type_, head_dim_);
  for (int h = 0; h < n_kv_heads_; ++h) {
    std::byte* head = data_.data() + offset(layer, h);
    const auto copy_key = [&](auto number) {
      for (int d = 0; d < head_dim_; ++d) {
        std::memcpy(head + b.k.number(d), head + a.k.number(d), sizeof number);
      }
    };
    type_ == KvType::kInt8 ? copy_key(int8_t{}) : copy_key(uint16_t{});
    std::memcpy(head + b.v.first, head + a.v.first, kv_numbers_bytes(type_, head_dim_, 1));
    for (int s = 0; s < n_scales; ++s) {
      std::memcpy(head + b.k.scale(s), head + a.k.scale(s), sizeof(uint16_t));
      std::memcpy(head + b.v.scale(s), head + a.v.scale(s), sizeof(uint16_t));
    }
  }
}

// Chunks are a head's own, so of each there are at most two pages that are half in one: those stay.
void KvCache::give_back(int n) {
  if (positions(n) >= positions(reached_)) return;
  reached_ = n;
  if (n == 0) return data_.give_back(0, data_.size());
  const size_t k = key_bytes(type_, head_dim_, positions(n)), v = value_bytes(type_, v_stride_, n);
  for (size_t at = 0; at < data_.size(); at += k_size_ + v_size_) {  // each head of each layer
    data_.give_back(at + k, at + k_size_);
    data_.give_back(at + k_size_ + v, at + k_size_ + v_size_);
  }
}

size_t KvCache::bytes_held() const {
  const size_t n_heads = data_.size() / (k_size_ + v_size_);
  return n_heads * (key_bytes(type_, head_dim_, positions(reached_)) +
                    value_bytes(type_, v_stride_, reached_));
}

// Whole blocks and chunks: scales are behind their numbers.
void KvCache::copy_prefix(const KvCache& other, int n) {
  const size_t k = key_bytes(type_, head_dim_, n), v = value_bytes(type_, v_stride_, n);
  for (size_t at = 0; at < data_.size(); at += k_size_ + v_size_) {  // each head of each layer
    std::copy_n(other.data_.data() + at, k, data_.data() + at);
    std::copy_n(other.data_.data() + at + k_size_, v, data_.data() + at + k_size_);
  }
}

void KvCache::read(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const {
  const Places at = places(pos);
  for (int h = 0; h < n_kv_heads_; ++h) {
    const std::byte* head = data_.data() + offset(layer, h);
    const auto read_row = [&](const Row& row, std::span<uint16_t> out) {
      for (int d = 0; d < head_dim_; ++d) {
        uint16_t bits = 0;
        std::memcpy(&bits, head + row.number(d), kv_number_bytes(type_));
        if (type_ == KvType::kInt8) {
          uint8_t scale[sizeof(uint16_t)];
          std::memcpy(scale, head + row.scale(d / kKvScaled), sizeof(scale));
          bits = static_cast<uint16_t>(bits | scale[d % sizeof(scale)] << 8);
        }
        out[static_cast<size_t>(h) * head_dim_ + d] = bits;
      }
    };
    read_row(at.k, k);
    read_row(at.v, v);
  }
}

}  // namespace specbound
