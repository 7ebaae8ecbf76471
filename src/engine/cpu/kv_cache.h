// K and V of every layer that the CPU runs, FP16 or INT8 (kv_format.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/cpu/kv_format.h"
#include "engine/cpu/tiles.h"
#include "engine/pages.h"
#include "model/config.h"

namespace specbound {

inline int v_stride_of(int head_dim) {
  return round_up(head_dim, 16);
}
// K and V of one position in one layer.
inline size_t kv_position_bytes(const ModelConfig& config, KvType type) {
  const size_t k = kv_block_bytes(type, config.head_dim, 1);
  const size_t v = kv_block_bytes(type, v_stride_of(config.head_dim), 1);
  return static_cast<size_t>(config.n_kv_heads) * (k + v);
}

class KvCache {
 public:
  // Room for n_ctx positions of all layers but the first `without`. Throws Error(kLimit).
  KvCache(const ModelConfig& config, int n_ctx, int without, KvType type = KvType::kFp16);
  static size_t bytes_needed(const ModelConfig& config, int n_ctx, int without,
                             KvType type = KvType::kFp16);

  KvHead head(int layer, int kv_head);  // layer without+1..L
  KvType type() const { return type_; }
  size_t bytes() const { return data_.bytes(); }

  // Positions 0..n-1 are about to be written.
  void reach(int n) { reached_ = std::max(reached_, n); }
  // Those from n on go, and their memory, taken by whole blocks, goes back to the system.
  void give_back(int n);
  size_t bytes_held() const;

  // Position `to` of every head becomes what position `from` is.
  void copy(int layer, int from, int to);

  // The first n positions become those of `other`, which is as large and of the same type.
  void copy_prefix(const KvCache& other, int n);

  // As BackendInspection::read_kv().
  void read(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const;

 private:
  size_t offset(int layer, int kv_head) const;  // of a head's K; its V follows
  // Where a position's key or value of a head lies, from the head's K on.
  struct Row {
    size_t first, first_scale;  // number 0 and its scale
    size_t to_next, to_next_scale;

    size_t number(int d) const { return first + d * to_next; }
    size_t scale(int i) const { return first_scale + i * to_next_scale; }
  };
  struct Places {
    Row k, v;
  };
  Places places(int pos) const;

  KvType type_;
  int without_, n_kv_heads_, head_dim_, v_stride_;
  int reached_ = 0;         // positions that were ever written since they were given back
  size_t k_size_, v_size_;  // bytes of one head
  Pages<std::byte> data_;   // (layers, n_kv_heads, {K, V})
};

}  // namespace specbound
