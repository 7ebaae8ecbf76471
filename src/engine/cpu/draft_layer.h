// The draft layer on the CPU (HeadKind::kLayer): a model of one block beside the model, whose
// inputs are made of tokens and final states, and whose K and V follow the text. What rounds
// accepted since it was last asked goes through it together with the row that it is asked about.
// docs/architecture.md 6.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/shortlist.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

class DraftLayer {
 public:
  // `model` is the backend whose rows it guesses behind, of `weights`; everything must outlive it.
  // It says one of the tokens of `shortlist`. Throws Error(kLimit).
  DraftLayer(const Backend& model, const Weights& weights, const HeadWeights& head,
             Shortlist& shortlist, ThreadPool& pool, const CpuOptions& options);

  // Rows h (n, dim) of `tokens` went through all layers; their places are pos..pos+n-1.
  void ran(int pos, std::span<const int32_t> tokens, const float* h);
  // Another text begins: nothing is known of it.
  void forget() { first_ = end_ = valid_ = 0; }
  // As Backend::keep_path().
  void keep_path(int pos, const RowPath& path);

  // Row `slot` of `token` in the round whose root is at `root`.
  struct Row {
    int root, slot;
    const RowPath& path;
    int32_t token;
  };
  // See Backend::exit_check(). Slots come in order, 0 with each new root first.
  ExitPeak check(const Row& looked, float temperature);

 private:
  void set_input(int row, int32_t token, const float* state);
  void set_inputs(int n, int pos);
  void map_inputs(int n);
  void catch_up(int root);
  float* state(int pos) { return states_.data() + static_cast<size_t>(pos) * dim_; }
  float* own(int slot) { return own_.data() + static_cast<size_t>(slot) * dim_; }

  const Weights& weights_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  Shortlist& shortlist_;
  const float* norm_;  // w
  const int dim_;
  const float eps_;

  std::vector<float> ones_;           // a norm without a weight
  Weights block_weights_;             // of the one block; its embedding is inputs_
  std::optional<LinearStore> store_;  // of W
  Linear map_;
  RowBuffer rows_;                  // (kMaxRows, 2 dim): [e / rms(e); s / rms(s)]
  std::vector<float> inputs_;       // (kMaxRows, dim): W of those
  std::unique_ptr<Backend> block_;  // positions from first_ on

  Pages<float> states_;  // (n_ctx, dim): norm(h_L) by place
  std::vector<int32_t> tokens_;
  // Places [first_, end_) have a state; what came before it was attached has none.
  int first_ = 0, end_ = 0;
  int valid_ = 0;  // places of block_ that hold K and V of true states

  std::vector<float> own_;  // (kMaxRows, dim): y of the rows that were looked at, by slot
};

}  // namespace specbound
