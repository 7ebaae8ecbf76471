// A backend that has no model: whatever is drafted, what it draws is a text that was written
// before. A round costs nothing, so drafting is tried on whole corpora in seconds.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "engine/backend.h"
#include "error.h"

namespace specbound::bench {

class RecordedText final : public Backend, BackendInspection {
 public:
  RecordedText(int vocab_size, int n_ctx) : n_ctx_(n_ctx) {
    config_.n_layers = 1;
    config_.vocab_size = vocab_size;
  }
  // Must outlive what runs on it; at most n_ctx tokens. Nothing is cached.
  void assign(std::span<const int32_t> text) {
    text_ = text;
    kv_len_ = 0;
  }

  const ModelConfig& config() const override { return config_; }
  int n_ctx() const override { return n_ctx_; }
  std::string description() const override { return "a recorded text"; }
  std::string device() const override { return description(); }

  void embed(int slot, int32_t token) override {
    tokens_[static_cast<size_t>(slot)] = token;
    paths_.reset(slot);
  }
  void set_row(int, std::span<const float>) override { SB_CHECK(false); }
  void follow(int slot, int parent) override { paths_.follow(slot, parent); }
  void run_layers(int slot, int n, int pos, int, int) override {
    root_ = static_cast<size_t>(pos - slot);
    kv_len_ = pos + n;
  }
  // All for the token that comes next behind rows of the text, for token 0 behind others.
  void logits(int slot, int n, float* out) override {
    const size_t vocab_size = static_cast<size_t>(config_.vocab_size);
    std::fill_n(out, static_cast<size_t>(n) * vocab_size, 0.0f);
    for (int i = 0; i < n; ++i) out[i * vocab_size + static_cast<size_t>(next(slot + i))] = 1;
  }
  void prefill(std::span<const int32_t> tokens, bool (*)(void*, int), void*) override {
    kv_len_ += static_cast<int>(tokens.size());
  }
  int kv_len(int) const override { return kv_len_; }
  void keep_path(int pos, const RowPath& path) override { kv_len_ = pos + path.depth + 1; }
  void truncate(int len) override { kv_len_ = std::min(kv_len_, len); }
  void restore(int len) override { kv_len_ = len; }
  void keep_state(int) override {}
  void set_exit_heads(const ExitHeads*, int) override {}
  const BackendInspection& inspect() const override { return *this; }

  // What a text has not.
  void skip_layers(int, int, int, int, int) override { none(); }
  float confidence(std::span<const float>, float) const override { none(); }
  ExitPeak exit_check(int, int, float) override { none(); }
  std::span<const float> exit_logits() const override { none(); }
  std::span<const int32_t> exit_ids() const override { none(); }
  void prefill_rows(std::span<const int32_t>) override { none(); }
  void prefill_logits(int, int, float*) override { none(); }
  std::span<const float> hidden(int) const override { none(); }
  void read_kv(int, int, std::span<uint16_t>, std::span<uint16_t>) const override { none(); }

 private:
  [[noreturn]] static void none() {
    throw Error(ErrorCode::kUnsupported, "a text has no such thing");
  }

  int32_t next(int slot) const {
    const RowPath& path = paths_[slot];
    const size_t rows = static_cast<size_t>(path.depth) + 1;
    if (root_ + rows >= text_.size()) return 0;
    for (size_t d = 0; d < rows; ++d) {
      if (tokens_[path.slots[d]] != text_[root_ + d]) return 0;
    }
    return text_[root_ + rows];
  }

  ModelConfig config_;
  int n_ctx_, kv_len_ = 0;
  size_t root_ = 0;  // position of the rows' first
  std::span<const int32_t> text_;
  std::array<int32_t, kMaxRows> tokens_{};
  RowPaths paths_;
};

}  // namespace specbound::bench
