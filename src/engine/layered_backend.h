// What both engines do alike, wherever rows, keys and values lie: how many positions each layer
// has, which row follows which, and prompts in chunks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/backend.h"
#include "engine/kv_lengths.h"
#include "engine/row_paths.h"

namespace specbound {

class LayeredBackend : public Backend {
 public:
  const ModelConfig& config() const final { return config_; }
  int n_ctx() const final { return n_ctx_; }
  void follow(int slot, int parent) final { paths_.follow(slot, parent); }
  int kv_len(int layer) const final { return lengths().at(layer); }
  void skip_layers(int, int n, int pos, int from, int to) final {
    lengths().extend(pos, n, from, to);
  }
  void truncate(int len) override { lengths().truncate(len); }
  void restore(int len) final { lengths().restore(len); }
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int), void* context) final;
  void prefill_rows(std::span<const int32_t> tokens) final;
  void prefill_logits(int first, int n, float* out) final;

 protected:
  LayeredBackend(const ModelConfig& config, int n_ctx) : config_(config), n_ctx_(n_ctx) {}

  virtual const KvLengths& lengths() const = 0;  // of the text that is selected
  virtual KvLengths& lengths() = 0;
  // All layers over the tokens of one chunk; with `kv_only` of the last one K and V alone, where
  // nobody wants its rows.
  virtual void run_prefill(std::span<const int32_t> tokens, bool kv_only) = 0;
  // prefill_logits() of rows that are there.
  virtual void logits_of_prefilled(int first, int n, float* out) = 0;
  // What lay in the rows of a prefill is another text's, or between layers.
  void forget_prefilled() { prefilled_rows_ = 0; }

  const ModelConfig config_;
  const int n_ctx_;
  std::array<int32_t, kMaxRows> tokens_{};  // [slot] embedded last
  RowPaths paths_;                          // of the same rows

 private:
  int prefilled_rows_ = 0;  // that went through all layers
};

}  // namespace specbound
