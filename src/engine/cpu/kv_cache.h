// K and V of every layer that the CPU runs, FP16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/cpu/kernels.h"
#include "engine/pages.h"
#include "model/config.h"

namespace specbound {

class KvCache {
 public:
  // Room for n_ctx positions of all layers but the first `without`. Throws Error(kLimit).
  KvCache(const ModelConfig& config, int n_ctx, int without);
  static size_t bytes_needed(const ModelConfig& config, int n_ctx, int without);

  KvHead head(int layer, int kv_head);  // layer without+1..L
  size_t bytes() const { return data_.bytes(); }

  // Positions 0..n-1 are about to be written.
  void reach(int n) { reached_ = std::max(reached_, n); }
  // Those from n on go, and their memory, taken by whole blocks, goes back to the system.
  void give_back(int n);
  size_t bytes_held() const;

  // Position `to` of every head becomes what position `from` is.
  void copy(int layer, int from, int to);

  // The first n positions become those of `other`, which is as large.
  void copy_prefix(const KvCache& other, int n);

  // K and V of one position as rows (kv_dim) of FP16 bits.
  void read(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const;

 private:
  size_t offset(int layer, int kv_head) const;  // of a head's K; its V follows
  int without_, n_kv_heads_, head_dim_, v_stride_;
  int reached_ = 0;         // positions that were ever written since they were given back
  size_t k_size_, v_size_;  // elements of one head
  Pages<uint16_t> data_;    // (layers, n_kv_heads, {K, V})
};

}  // namespace specbound
