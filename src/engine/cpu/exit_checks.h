// Exit checks on the CPU: the heads' weights repacked, the states that chained heads hand from row
// to row, and a check as one run of the pool. A check is a row's worth of work many times a round,
// so what it costs beside its weights' bytes is what this file keeps low.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

class ExitChecks {
 public:
  // Everything must outlive it. `lm_head` is the model's, for heads over the whole vocabulary.
  ExitChecks(const ModelConfig& config, const Weights& weights, const Linear& lm_head,
             const Kernels& kernels, ThreadPool& pool, bool repack);

  // See Backend.
  void set(const ExitHeads* heads, int shortlist);
  ExitPeak check(int head, int slot, const float* h, float temperature);  // h (dim): H[slot]
  std::span<const float> logits() const { return {z_.data(), z_size_}; }
  void keep_state(const float* h);  // (dim), after all layers

 private:
  struct Head {
    HeadKind kind;
    Linear map, folded, inner, outer;
  };

  float* state(int slot) {
    return states_.data() + slot * round_up<size_t>(config_.dim, kQuantBlock);
  }
  Rows row(int thread, const float* x, int k, bool int8);
  Rows normed(int thread, const float* h, const float* s, bool int8);
  void clear();

  const ModelConfig& config_;
  const Weights& weights_;
  const Linear& lm_head_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const bool repack_;

  const ExitHeads* file_ = nullptr;
  std::optional<LinearStore> store_;
  Pages<std::byte> listed_;  // (shortlist, dim) rows of lm_head, where they are not in tiles
  std::vector<Head> heads_;
  Linear listed_head_;  // those rows

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
