// Exit checks on the CPU: the heads' weights repacked, the states that chained heads hand from row
// to row, and a check as one run of the pool. A check is a row's worth of work many times a round,
// so what it costs beside its weights' bytes is what this file keeps low.
#pragma once

#include <map>
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
  // h (dim): H[row.slot]; tokens: of the round's rows, by slot.
  ExitPeak check(int head, const DraftLayer::Row& row, std::span<const int32_t> tokens,
                 const float* h, float temperature);
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
    for (auto& [head, layer] : draft_layers_) layer.forget();
  }
  // A draft layer wants to know them of all rows: see there.
  bool wants_states() const { return !draft_layers_.empty(); }
  void ran(int pos, std::span<const int32_t> tokens, const float* h) {
    for (auto& [head, layer] : draft_layers_) layer.ran(pos, tokens, h);
  }
  // Layer l is behind the rows `mine` of h (n, dim), whose places are pos..pos+n-1.
  void passed(int l, int pos, const float* h, Slice mine) {
    for (auto& [head, layer] : draft_layers_) layer.passed(l, pos, h, mine);
  }
  // The first of the layers from..to that passed() does something after; else `to`.
  int next_state(int from, int to) const {
    for (const auto& [head, layer] : draft_layers_) to = layer.next_state(from, to);
    return to;
  }
  void keep_path(int pos, const RowPath& path) {
    for (auto& [head, layer] : draft_layers_) layer.keep_path(pos, path);
  }

 private:
  struct Medusa {
    struct Block {
      Linear map;
      const float* bias;           // (dim)
      Linear residual;             // n_out 0: x itself
      const float* residual_bias;  // (dim)
    };
    std::vector<Block> blocks;
    Linear lm_head;
    const float* lm_bias;  // (vocab_size) or null
  };
  struct Head {
    HeadKind kind;
    std::span<const int32_t> tokens;  // of an eagle3 layer's own list
    Linear map, folded, inner, outer, lm_head;
    std::vector<Medusa> medusa = {};  // [k - 1]
  };

  float* state(int slot) {
    return states_.data() + slot * round_up<size_t>(config_.dim, kQuantBlock);
  }
  Rows input(int thread, const float* x, int k, bool int8);
  Rows normed(int thread, const float* h, const float* s, bool int8);
  void chained(const Head& head, int slot, const float* h, float temperature, int thread);
  void medusa(const Medusa& head, const float* x, float* z, int thread);
  const float* chain(const RowPath& path, std::span<const int32_t> tokens);
  void say(const Linear& lm_head, const float* y, float* z, int thread);
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
  std::optional<Shortlist> shortlist_;      // of heads that say tokens of the text
  std::map<int, DraftLayer> draft_layers_;  // by the head's index
  const Head* looked_ = nullptr;            // at the last check

  Pages<float> states_;            // (kMaxRows + 1, padded dim): [slot] is before that row
  Pages<float> ones_;              // norm without a weight, SiLU without a factor
  Pages<float> mapped_;            // (2, padded dim): W x of a full head, x of a medusa head
  Pages<float> chain_;             // of a hydra head: [s; e_1; ..; e_k], up to whole blocks
  Pages<float> inner_;             // (inner): silu(C u)
  Pages<float> z_;                 // (vocab_size)
  Pages<PeakChunk> peaks_;         // (vocab_size / kPeakChunk)
  std::vector<RowBuffer> buffer_;  // [thread]
  size_t z_size_ = 0;
};

}  // namespace specbound
