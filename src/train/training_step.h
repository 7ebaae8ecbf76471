// One batch through all heads: losses and gradients. Every head learns from the same rows, so the
// final distribution is worked out once. The formulas of the heads are those of
// model/exit_heads.h; chained heads run several positions on their own state, and the gradient goes
// back through all of them; of medusa and hydra heads (place_heads.h) each place is one position.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/exit_heads.h"
#include "train/adamw.h"
#include "train/gemm.h"

namespace specbound {

class TokenRows;
struct BlockForm;
struct BlockStep;
struct PassageBatch;

// Of a medusa or hydra head, what guesses one place behind the root, in one block: from the state s
// before the root y = s + silu(W s + b), with u = [s; e_1; ..; e_k] y = R u + c + silu(W u + b).
struct LearningPlace {
  Parameter map, bias;                // W, b
  Parameter residual, residual_bias;  // R, c of a hydra head
};

// Of a draft layer, beside its map W: block_form.h. What its kind has not is empty.
struct LearningBlock {
  Parameter q, k, v, o;      // (q_dim, attn_inputs) and (kv_dim, attn_inputs) twice, (dim, q_dim)
  Parameter gate, up, down;  // (n_inner, dim) twice, (dim, n_inner)
  Parameter norm, ffn_norm;  // w, w_f (dim)
  Parameter map_bias;        // eagle: b (dim)
  Parameter attn_norm;       // eagle3, kangaroo: w_a (dim)
  Parameter embedding_norm;  // eagle3: w_e (dim)
};

// Weights of a head while it learns. map: W (dim, n_in), chained heads' A; inner and outer are
// chained heads' alone.
struct LearningHead {
  HeadKind kind = HeadKind::kFolded;
  int layer = 0;
  int dim = 0, n_inner = 0;
  Parameter map, inner, outer;
  std::vector<LearningPlace> places;  // [k - 1] of medusa and hydra heads, which have nothing else
  LearningBlock block;                // of a layer
  int most_steps = std::numeric_limits<int>::max();  // that a chained head goes of a batch

  bool chained() const { return kind == HeadKind::kChained; }
  bool by_place() const { return is_by_place(kind); }
  int n_in() const { return chained() ? 2 * dim : dim; }  // of a layer's map: its form says it
  std::vector<Parameter*> parameters();
};

// Those of a batch's steps (TrainingBatch::chained) that a chained head, or one by place, learns.
std::span<const int> steps_of(const LearningHead& head, std::span<const int> steps);

// Rows side by side. Step 0 is the rows themselves, step k those k positions on; those that have no
// such position, or no state before them, stand last, so that each step's rows are the first of the
// step before.
struct TrainingBatch {
  int n = 0;                                       // rows of step 0 for heads without a state
  std::vector<int> chained;                        // [step] rows for heads with a state, if any
  std::vector<std::vector<std::vector<float>>> x;  // [layer index][step](rows, dim); may be empty
  std::vector<std::vector<float>> y;               // [step](rows, dim)
  std::vector<float> state;                        // (chained[0], dim), y of the position before
  std::vector<std::vector<int32_t>> tokens;        // [step](chained[step]) at it; may be empty
};

// The intermediate values of one head on one step.
struct HeadStep {
  std::vector<float> u;       // (n, n_in), [x; s]
  std::vector<float> hidden;  // (n, n_inner), before silu; by place (n, dim)
  std::vector<float> active;  // (n, n_inner), after it
  std::vector<float> y;       // (n, dim)
};

// y of `n` rows x (n, dim) with the states s (n, dim); s is not looked at without a state.
void head_forward(const Gemm& gemm, const LearningHead& head, int n, const float* x, const float* s,
                  HeadStep& step);

// Logits that `words` (tokens, dim) make of a row; their product may be beyond an int.
inline int width_of(std::span<const float> words, int dim) {
  return static_cast<int>(words.size() / static_cast<size_t>(dim));
}

class TrainingStep {
 public:
  // `lm_head` (vocab_size, dim) must outlive it; shortlist ids are its rows. All logits are capped
  // as the model's are (`softcap`, 0: not). The final ones are then multiplied by `sharpen`: above
  // 1, heads learn more of the first choice and less of the rest.
  TrainingStep(const Gemm& gemm, std::span<const float> lm_head, int dim,
               std::span<const int32_t> shortlist, float sharpen = 1, float softcap = 0);

  // Adds to the gradients of `heads`, whose x is batch.x[x_index[head]]. losses[head] is the mean
  // divergence over the head's rows, in nats; 0 where none has what the head needs.
  void run(std::span<LearningHead> heads, std::span<const int> x_index, const TrainingBatch& batch,
           std::span<double> losses);

  // The same of a draft layer on passages of texts, through all steps that the batch has. `steps`
  // is scratch. Returns the loss. Logits of as many rows as fit into most_logits() are in memory,
  // twice: of a batch and a large vocabulary they would be many times what the layer takes.
  double run(LearningHead& head, const BlockForm& form, const PassageBatch& batch,
             std::vector<BlockStep>& steps);
  void set_most_logits(size_t n) { most_logits_ = n; }
  size_t most_logits() const { return most_logits_; }

  // Rows of lm_head that a head of this kind learns to guess, (tokens, dim).
  std::span<const float> words_of(HeadKind kind) const {
    return learns_shortlist(kind) ? std::span<const float>(shortlist_rows_) : lm_head_;
  }

  // What hydra heads look at, which must outlive it.
  void set_token_rows(const TokenRows* rows) { token_rows_ = rows; }
  const TokenRows* token_rows() const { return token_rows_; }

  int dim() const { return dim_; }
  float sharpen() const { return sharpen_; }
  float softcap() const { return softcap_; }
  int vocab_size() const { return width_of(lm_head_, dim_); }
  std::span<const float> lm_head() const { return lm_head_; }
  // (shortlist, dim), rows of lm_head.
  std::span<const float> shortlist_rows() const { return shortlist_rows_; }
  int shortlist_size() const { return width_of(shortlist_rows_, dim_); }

 private:
  struct Targets {
    std::vector<float> p;        // (n, width)
    std::vector<float> entropy;  // (n)
  };
  void set_targets(std::span<const float> rows, int n, const float* y, Targets& targets);
  double loss_gradient(std::span<const float> rows, float softcap, int n, const float* y,
                       const Targets& targets, float weight, float* dy);
  double linear(LearningHead& head, const TrainingBatch& batch, const std::vector<float>& x);
  double chained(LearningHead& head, const TrainingBatch& batch,
                 const std::vector<std::vector<float>>& x);
  static void keep_targets(std::span<const int> from, std::span<const int> rows, size_t width,
                           Targets& targets);
  double losses_at(HeadKind kind, std::span<const int> learnt, const PassageBatch& batch,
                   float weight, std::span<BlockStep> steps);
  void by_place(std::span<LearningHead> heads, const TrainingBatch& batch,
                std::span<double> losses);
  void backward(LearningHead& head, const HeadStep& step, int n, const float* dy, float* ds);

  const Gemm& gemm_;
  std::span<const float> lm_head_;
  int dim_;
  float sharpen_, softcap_;
  const TokenRows* token_rows_ = nullptr;
  std::vector<float> shortlist_rows_;
  std::vector<Targets> targets_;  // [step], shortlist
  Targets whole_;                 // one step at a time, whole vocabulary; layers: some rows
  size_t most_logits_ = size_t{1} << 24;
  std::vector<HeadStep> steps_;
  std::vector<std::vector<float>> dy_;  // [step]
  std::vector<float> z_, loss_, d_hidden_;
};

}  // namespace specbound
