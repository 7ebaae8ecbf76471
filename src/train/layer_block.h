// The one block of a draft layer while it learns: forward and backward, written out, of the
// formulas `layer` and `eagle` of model/exit_heads.h. It is unrolled over steps on its own states
// (EAGLE-3's training-time test, arXiv 2503.01840): in step k position i has its token and what
// step k - 1 said at i - 1, in step 0 the model's own state there. It attends to the K and V of
// true states up to i - k, and behind them to those of its own chain, of step n at i - (k - n).
//
// An eagle layer has no norm before attention and says states as large as the model's, and the rows
// of an embedding are small. It learns in units in which both have a root mean square of about 1:
// factors in front of W and behind the block, which end up in the weights of the file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/rope.h"
#include "model/exit_heads.h"
#include "train/gemm.h"
#include "train/training_step.h"

namespace specbound {

// What a block is beside its weights.
struct BlockForm {
  // `config` and the factors of its rope, null for none, are the model's; `n_positions` a passage
  // has at most. `state_size` as state_size() has it.
  BlockForm(HeadKind kind, const ModelConfig& config, const float* rope_factors, int n_positions,
            int n_inner, double state_size);

  HeadKind kind;
  int dim, n_heads, n_kv_heads, head_dim, n_inner;
  float norm_eps, score_scale;
  // (dim), of which LearningBlock::norm is learnt as a factor: as fast whatever their size.
  std::vector<float> norm;
  float state_factor = 1;  // eagle: of states in front of W; what the block says is divided by it
  bool eagle() const { return kind == HeadKind::kEagle; }
  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }

  // Heads (n_heads, head_dim) of the position `pos` of a passage, in place; back: the gradient.
  void rotate(float* heads, int n, int pos) const { rotate(heads, n, pos, false); }
  void rotate_back(float* heads, int n, int pos) const { rotate(heads, n, pos, true); }

 private:
  void rotate(float* heads, int n, int pos, bool back) const;
  const Kernels* kernels_;
  RopeStyle style_;
  int rope_dim_;
  std::vector<float> cosine_, sine_, sine_back_;  // (n_positions, rope_dim)
};

// Passages of texts side by side, each a row behind the other. A step's rows are places in it.
struct PassageBatch {
  int n = 0;
  std::vector<int> first;    // [passage + 1] of the n rows
  std::vector<float> x;      // (n, dim) the token's row of the embedding as the kind takes it
  std::vector<float> state;  // (n, dim) y of the position before, zeros where there is none
  std::vector<float> y;      // (n, dim)
  std::vector<int> origin;   // [n] which row of its chunk it is
  std::vector<int> learnt;   // rows that are learnt from in step 0
  struct Step {
    std::vector<int> rows;   // ascending; of step 0 all, later those whose chain goes so far
    std::vector<int> slot;   // [n] a row's place among them, or -1
    std::vector<int> begin;  // [passage + 1] of `rows`
  };
  std::vector<Step> steps;
};

// What of `batch` depends on which rows are learnt from (learn (n)): the steps 0..n_steps-1.
void set_steps(std::span<const uint8_t> learn, int n_steps, PassageBatch& batch);

// The intermediate values of one step, n rows.
struct BlockStep {
  std::vector<float> in, in_scale;                // (n, 2 dim) [x; s]; (n) 1 / rms of s
  std::vector<float> u, u_normed, u_scale;        // (n, dim), (n, dim), (n): before attention
  std::vector<float> q, k, v;                     // (n, q_dim), (n, kv_dim) twice; rotated
  std::vector<float> shares;                      // [passage][head](rows, passage): of true states
  std::vector<float> own_shares;                  // (n, n_heads, step): of its own
  std::vector<float> attended;                    // (n, q_dim)
  std::vector<float> h, h_normed, h_scale;        // as u: before the feed-forward
  std::vector<float> f;                           // (n, dim) eagle: w h / rms(h)
  std::vector<float> gate, up, active;            // (n, n_inner)
  std::vector<float> out, out_normed, out_scale;  // as u: after it
  std::vector<float> y;                           // (n, dim)
  std::vector<float> dy, dk, dv;                  // (n, dim), (n, kv_dim) twice: gradients
};

// in (n, 2 dim) of steps[k], what W multiplies.
void block_inputs(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                  std::span<BlockStep> steps);

// Fills steps[k]; the steps before it are there.
void block_forward(const Gemm& gemm, const LearningHead& head, const BlockForm& form,
                   const PassageBatch& batch, int k, std::span<BlockStep> steps);

// Adds to the gradients of `head` from steps[k].dy, to steps[k - 1].dy and to dk and dv of the
// steps up to k; those after k are done.
void block_backward(const Gemm& gemm, LearningHead& head, const BlockForm& form,
                    const PassageBatch& batch, int k, std::span<BlockStep> steps);

}  // namespace specbound
