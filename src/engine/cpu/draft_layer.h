// A draft layer on the CPU (is_layer() of HeadKind): a model of one block beside the model, whose
// inputs are made of tokens and states, and whose K and V follow the text. What rounds accepted
// since it was last asked goes through it together with the row that it is asked about. An
// adapter's (kangaroo) inputs are the rows themselves as a layer of the model leaves them, and its
// block is attention alone. docs/architecture.md 6.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/thread_pool.h"
#include "engine/draft_layer_form.h"
#include "engine/draft_layer_text.h"
#include "engine/pages.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

class DraftLayer {
 public:
  // `model` is the backend whose rows it guesses behind, of `weights`; everything must outlive it.
  // Throws Error(kLimit).
  DraftLayer(const Backend& model, const Weights& weights, const HeadWeights& head,
             ThreadPool& pool, const CpuOptions& options);

  // Rows h (n, dim) of `tokens` went through all layers; their places are pos..pos+n-1.
  void ran(int pos, std::span<const int32_t> tokens, const float* h);
  // Rows `mine` of h (n, dim) have layer l behind them; their places are pos..pos+n-1. Threads come
  // with rows of their own.
  void passed(int l, int pos, const float* h, Slice mine);
  // See DraftLayerForm.
  int next_state(int from, int to) const { return form_.next_state(from, to); }
  // Another text begins: nothing is known of it.
  void forget() { text_.begin_at(0); }
  // As Backend::keep_path().
  void keep_path(int pos, const RowPath& path);

  // Row `slot` of `token` in the round whose root is at `root`.
  struct Row {
    int root, slot;
    const RowPath& path;
    int32_t token;
  };
  // The state after it, what the head's logits are of: (dim), zero up to the next multiple of 32.
  // Slots come in order, 0 with each new root first.
  const float* look(const Row& looked);

 private:
  void set_input(int row, int32_t token, const float* state);
  void set_inputs(int n, int pos);
  void map_inputs(int n);
  void norm_inputs(int n);
  void catch_up(int origin, int root);
  float* state(int pos) { return states_.data() + static_cast<size_t>(pos) * state_dim_; }
  float* attn_input(int row) { return attn_inputs_.data() + row * round_up(2 * dim_, kQuantBlock); }
  float* own(int slot) { return own_.data() + slot * round_up<size_t>(dim_, kQuantBlock); }

  const Weights& weights_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const DraftLayerForm form_;
  const std::vector<float> ones_;              // a norm without a weight
  const float *norm_, *map_bias_;              // w, b
  const float *embedding_norm_, *state_norm_;  // of what W multiplies or, eagle3, of what attends
  const int dim_, state_dim_;
  const float eps_;

  Weights block_weights_;             // of the one block; its embedding is inputs_
  std::optional<LinearStore> store_;  // of W, which an adapter lacks
  Linear map_;
  // (kMaxRows, 2 dim): [e / rms(e); s / rms(s)], mtp: with weights; eagle: [e; s];
  // eagle3: s (3 dim)
  RowBuffer rows_;
  std::vector<float> inputs_;       // (kMaxRows, dim): W of those; adapter: s
  Pages<float> attn_inputs_;        // eagle3: (kMaxRows, padded 2 dim), see Weights::attn_input
  std::unique_ptr<Backend> block_;  // positions from the text's origin on

  // (n_ctx, dim): norm(h_L) by place; mtp: h_L; adapter: h_l; eagle3: (n_ctx, 3, dim)
  Pages<float> states_;
  DraftLayerText text_;

  std::vector<float> own_;   // (kMaxRows, padded dim): y of the rows that were looked at, by slot
  std::vector<float> said_;  // (padded dim): eagle3: w y / rms(y), of the last of them
};

}  // namespace specbound
