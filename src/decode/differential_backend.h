// Differential testing of a backend, as a backend around it: it records every bit of a plain reply,
// taken layer by layer, and compares the passes of a speculative one with it, in whatever stretches
// and batches they come. docs/architecture.md 4; `specbound verify --bits`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "engine/pages.h"

namespace specbound {

// The first place where a speculative reply was not the plain one.
struct Difference {
  enum class What { kToken, kCount, kStop, kHidden, kLogits, kKey, kValue, kKvLen, kMissing };
  What what = What::kToken;
  int pos = 0;             // in the text
  int rows = 0, slot = 0;  // of the pass it was found in; rows 0: found after the reply
  int from = 0, to = 0;    // layers the pass ran (a key, a value, a length: its own); 0: none
  int element = 0;         // of the row
  // Bits of a float, of what K/V keep (BackendInspection::read_kv), or a plain number.
  uint32_t expected = 0, found = 0;
};
inline constexpr std::array<const char*, 9> kDifferenceNames = {
    "token", "count", "stop", "hidden", "logits", "key", "value", "kv_len", "missing"};

// One line: "hidden row differs at position 41 (3 rows, slot 2, layers 5-8): element 17 ...".
std::string describe(const Difference& difference);
// `bits` as the kind of difference holds them: "-0.125 (0xbe000000)", "17", "length".
std::string describe_value(Difference::What what, uint32_t bits);

class DifferentialBackend final : public Backend, public DeviceSampling {
 public:
  // What texts of `positions` tokens, of which `rows` are looked at, take.
  static size_t bytes_needed(const ModelConfig& config, int positions, int rows);

  // `backend` must outlive it. Throws Error(kLimit) when the memory cannot be had.
  DifferentialBackend(Backend& backend, int positions, int rows);

  // A plain reply begins: the passes from position `first` on are run layer by layer and kept.
  void record(int first);
  // It is over and `text` is what it gave; from now on passes are compared with it. A row is
  // compared while the text before it is the plain one: behind a wrong draft it has no counterpart.
  void compare(std::span<const int32_t> text);
  // The other reply is over, and the first `same` tokens of its text are the plain one's: none of
  // the rows that gave them was left out, all their keys and values, and, if that is all, the
  // lengths of the cache.
  void finish(int same);

  const std::optional<Difference>& difference() const { return difference_; }
  // Rows after a pass, and rows of logits, that were compared; and as many keys with their values.
  int64_t rows_compared() const { return rows_compared_; }
  int64_t kv_compared() const { return kv_compared_; }
  // [n]: of rows after a pass, those that ran together with n - 1 others.
  const std::array<int64_t, kMaxRows + 1>& rows_in_passes_of() const { return rows_in_passes_of_; }

  const ModelConfig& config() const override { return backend_.config(); }
  int n_ctx() const override { return backend_.n_ctx(); }
  std::string description() const override { return backend_.description(); }
  std::string device() const override { return backend_.device(); }
  void embed(int slot, int32_t token) override;
  void follow(int slot, int parent) override;
  // No row of the plain text.
  void set_row(int slot, std::span<const float> row) override;
  void run_layers(int slot, int n, int pos, int from, int to) override;
  // What comes of these rows is a guess from here on, as a check's is.
  void skip_layers(int slot, int n, int pos, int from, int to) override;
  void logits(int slot, int n, float* out) override;
  DeviceSampling* device_sampling() override {
    return backend_.samples_on_device() ? this : nullptr;
  }
  // Looks at the logits first, which stay behind in a draw.
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override;
  float confidence(std::span<const float> z, float temperature) const override {
    return backend_.confidence(z, temperature);
  }
  // Checks are approximate by right, and never part of the text.
  void set_exit_heads(const ExitHeads* heads, int shortlist) override {
    backend_.set_exit_heads(heads, shortlist);
  }
  ExitPeak exit_check(int head, int slot, float temperature) override {
    return backend_.exit_check(head, slot, temperature);
  }
  ExitPeak exit_draw(int head, int slot, float temperature, float least, const DrawRule& rule,
                     std::span<const int32_t> text, std::optional<RowDraw>& draw) override {
    return backend_.device_sampling()->exit_draw(head, slot, temperature, least, rule, text, draw);
  }
  std::span<const float> exit_logits() const override { return backend_.exit_logits(); }
  std::span<const int32_t> exit_ids() const override { return backend_.exit_ids(); }
  bool says_tokens_of_text() const override { return backend_.says_tokens_of_text(); }
  void keep_state(int slot) override { backend_.keep_state(slot); }
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override;
  void prefill_rows(std::span<const int32_t> tokens) override;
  void prefill_logits(int first, int n, float* out) override {
    backend_.prefill_logits(first, n, out);
  }
  int kv_len(int layer) const override { return backend_.kv_len(layer); }
  void keep_path(int pos, const RowPath& path) override;
  void truncate(int len) override;
  void restore(int len) override { backend_.restore(len); }
  void wait() override { backend_.wait(); }
  Device* gpu() override { return backend_.gpu(); }
  const BackendInspection& inspect() const override { return backend_.inspect(); }

 private:
  enum class Mode { kIdle, kRecord, kCompare };
  struct Row {
    int32_t token = -1;
    int place = -1, pos = -1;  // in the cache, and in the text
    int done = 0;              // layers
    bool skipped = false;      // some of them
    bool plain = false;        // it and all before it are the plain text's
  };

  float* hidden_at(int pos, int layer) {
    return hidden_.data() + (static_cast<size_t>(pos - first_) * n_layers_ + layer - 1) * dim_;
  }
  float* logits_at(int pos) {
    return logits_.data() + static_cast<size_t>(pos - first_) * vocab_size_;
  }
  uint16_t* k_at(int pos, int layer) {
    return kv_.data() + (static_cast<size_t>(pos) * n_layers_ + layer - 1) * 2 * kv_dim_;
  }
  uint16_t* v_at(int pos, int layer) { return k_at(pos, layer) + kv_dim_; }

  bool recorded(int pos) const { return pos >= first_ && pos < end_; }
  bool is_plain(int pos, int32_t token) const {
    return pos < static_cast<int>(text_.size()) && text_[pos] == token;
  }
  void cached(int pos, int32_t token);
  void place(int slot, int place);
  void compare_row(Difference::What what, int slot, int rows, int from, int to,
                   const float* expected, const float* found, size_t n);
  void compare_kv(int pos, int place, int layer, int slot, int rows);
  void check_length(int layer, int pos, int expected, int rows, int slot);
  void report(const Difference& difference);

  Backend& backend_;
  const int n_layers_;
  const size_t dim_, kv_dim_, vocab_size_;
  const int positions_, rows_;
  Mode mode_ = Mode::kIdle;
  int first_ = 0, end_ = 0;  // positions whose rows are kept
  std::array<Row, kMaxRows> slots_;
  RowPaths paths_;
  int newest_ = 0;             // slot that a token went into last
  std::vector<int32_t> text_;  // the plain one
  int matching_ = 0;           // positions in the cache, from 0, whose tokens are those of text_
  std::vector<bool> seen_;     // [pos - first_] logits compared after all layers
  Pages<float> hidden_;        // (rows, n_layers, dim)
  Pages<float> logits_;        // (rows, vocab_size)
  Pages<uint16_t> kv_;         // (positions, n_layers, 2, kv_dim)
  std::vector<uint16_t> k_, v_;
  std::vector<float> drawn_from_;  // (rows, vocab_size) of the last draw
  int64_t rows_compared_ = 0, kv_compared_ = 0;
  std::array<int64_t, kMaxRows + 1> rows_in_passes_of_{};
  std::optional<Difference> difference_;
};

}  // namespace specbound
