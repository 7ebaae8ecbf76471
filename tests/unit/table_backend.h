// A backend whose logits are a table: what tests of the decode loop know every chance of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine_rig.h"
#include "error.h"
#include "forwarding_backend.h"

namespace specbound::test {

// A model whose logits are a table of the last two tokens in its cache, which is kept as a backend
// keeps K and V.
class TableBackend final : public ForwardingBackend {
 public:
  static constexpr int kVocab = 5;
  using Table = std::vector<std::vector<float>>;  // [before * kVocab + last]

  explicit TableBackend(Table table)
      : ForwardingBackend(model().backend(best_isa(), 1)), table_(std::move(table)) {}

  static Table random_table(uint64_t seed) {
    TinyRandom random(seed);
    Table table(kVocab * kVocab);
    for (std::vector<float>& row : table) {
      row.resize(kVocab);
      for (float& l : row) l = 1.2f * random.normal();
    }
    return table;
  }
  static Table near(Table table, float by, uint64_t seed) {
    TinyRandom random(seed);
    for (std::vector<float>& row : table) {
      for (float& l : row) l += by * random.normal();
    }
    return table;
  }
  const std::vector<float>& row(std::span<const int32_t> text) const {
    return table_[text[text.size() - 2] * kVocab + text.back()];
  }

  void embed(int slot, int32_t token) override {
    slots_[slot] = token;
    parents_[slot] = slot - 1;
  }
  void follow(int slot, int parent) override { parents_[slot] = parent; }
  void run_layers(int slot, int n, int pos, int, int) override {
    SB_CHECK(pos == static_cast<int>(cache_.size()));
    cache_.insert(cache_.end(), slots_ + slot, slots_ + slot + n);
    root_ = pos - slot;
  }
  void logits(int slot, int n, float* out) override {
    for (int i = slot; i < slot + n; ++i) {
      const std::vector<float>& z = row(text_to(i));
      out = std::copy(z.begin(), z.end(), out);
    }
  }
  void prefill(std::span<const int32_t> tokens, bool (*)(void*, int), void*) override {
    cache_.insert(cache_.end(), tokens.begin(), tokens.end());
  }
  int kv_len(int) const override { return static_cast<int>(cache_.size()); }
  void truncate(int len) override { cache_.resize(std::min<size_t>(cache_.size(), len)); }
  void keep_path(int pos, const RowPath& path) override {
    SB_CHECK(pos == root_);
    cache_ = text_to(path.slots[path.depth]);
  }

 private:
  static const TinyModel& model() {
    static const TinyModel model([] {
      TinySpec spec;
      spec.n_layers = 1;
      spec.vocab_size = kVocab;
      return spec;
    }());
    return model;
  }
  // What stands before the round, and the path to that row.
  std::vector<int32_t> text_to(int slot) const {
    std::vector<int32_t> path;
    for (int row = slot; row >= 0; row = parents_[row]) path.push_back(slots_[row]);
    std::vector<int32_t> text(cache_.begin(), cache_.begin() + root_);
    text.insert(text.end(), path.rbegin(), path.rend());
    return text;
  }

  Table table_;
  std::vector<int32_t> cache_;
  int32_t slots_[kMaxRows] = {};
  int parents_[kMaxRows] = {};
  int root_ = 0;  // position of slot 0
};

}  // namespace specbound::test
