// Exit checks on the CPU: the heads' weights repacked, the states that chained heads hand from row
// to row, and a check as one run of the pool. A check is a row's worth of work many times a round,
// so what it costs beside its weights' bytes is what this file keeps low.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/draft_layer.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/shortlist.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

class ExitChecks {
 public:
  // Of `model`, whose lm_head is `lm_head`. Everything must outlive it.
  ExitChecks(const Backend& model, const Weights& weights, const Linear& lm_head,
             const Kernels& kernels, ThreadPool& pool, const CpuOptions& options);

  // See Backend.
  void set(const ExitHeads* heads, int shortlist);
  ExitPeak check(int head, const DraftLayer::Row& row, const float* h,  // (dim): H[row.slot]
                 float temperature);
  // See Backend.
  std::span<const float> logits() const;
  std::span<const int32_t> ids() const;
  void keep_state(const float* h);  // (dim), after all layers
  // A token of the text came, and all of them went: see there.
  void meet(int32_t token) {
    if (shortlist_) shortlist_->meet(token);
  }
  void forget_text() {
    if (shortlist_) shortlist_->forget();
  }
  // Rows that come are those of another text.
  void change_text() {
    forget_text();
    if (draft_layer_) draft_layer_->forget();
  }
  // A draft layer wants to know them of all rows: see there.
  bool wants_states() const { return draft_layer_.has_value(); }
  void ran(int pos, std::span<const int32_t> tokens, const float* h) {
    if (draft_layer_) draft_layer_->ran(pos, tokens, h);
  }
  void keep_path(int pos, const RowPath& path) {
    if (draft_layer_) draft_layer_->keep_path(pos, path);
  }

 private:
  struct Head {
    HeadKind kind;
    Linear map, folded, inner, outer;
  };

  float* state(int slot) {
    return states_.data() + slot * round_up<size_t>(config_.dim, kQuantBlock);
  }
  Rows input(int thread, const float* x, int k, bool int8);
  Rows normed(int thread, const float* h, const float* s, bool int8);
  void chained(const Head& head, int slot, const float* h, float temperature, int thread);
  void clear();

  const Backend& model_;
  const ModelConfig& config_;
  const Weights& weights_;
  const Linear& lm_head_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const CpuOptions options_;

  const ExitHeads* file_ = nullptr;
  std::optional<LinearStore> store_;
  std::vector<Head> heads_;
  std::optional<Shortlist> shortlist_;  // of heads with a state
  std::optional<DraftLayer> draft_layer_;
  std::optional<HeadKind> looked_;  // at the last check

  Pages<float> states_;            // (kMaxRows + 1, padded dim): [slot] is before that row
  Pages<float> ones_;              // norm without a weight, SiLU without a factor
  Pages<float> mapped_;            // (dim): W x of a full head
  Pages<float> inner_;             // (inner): silu(C u)
  Pages<float> z_;                 // (vocab_size)
  Pages<PeakChunk> peaks_;         // (vocab_size / kPeakChunk)
  std::vector<RowBuffer> buffer_;  // [thread]
  size_t z_size_ = 0;
};

}  // namespace specbound
