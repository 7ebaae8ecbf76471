// The one block of a draft layer while it learns (block_form.h): forward and backward, written out.
// It is unrolled over steps on its own states (EAGLE-3's training-time test, arXiv 2503.01840): in
// step k position i has its token and what step k - 1 left at i - 1, in step 0 the model's own
// state there. It attends to the K and V of true states up to i - k, and behind them to those of
// its own chain, of step n at i - (k - n). What a step leaves is y, what is said, but of eagle3 the
// state that a norm makes y of.
#pragma once

#include <span>
#include <vector>

#include "train/passages.h"
#include "train/training_step.h"

namespace specbound {

// The intermediate values of one step, n rows.
struct BlockStep {
  std::vector<float> in, in_scale;                // (n, map_inputs()); (n) 1 / rms of a state
  std::vector<float> u, u_normed, u_scale;        // (n, dim), (n, dim), (n): before attention
  std::vector<float> a;                           // (n, attn_inputs()), where u_normed has weights
  std::vector<float> q, k, v;                     // (n, q_dim), (n, kv_dim) twice; rotated
  std::vector<float> shares;                      // [passage][head](rows, passage): of true states
  std::vector<float> own_shares;                  // (n, n_heads, step): of its own
  std::vector<float> attended;                    // (n, q_dim)
  std::vector<float> h, h_normed, h_scale;        // as u: before the feed-forward
  std::vector<float> f;                           // (n, dim), where h_normed has weights
  std::vector<float> gate, up, active;            // (n, n_inner)
  std::vector<float> out, out_normed, out_scale;  // as u: after it
  std::vector<float> y;                           // (n, dim)
  std::vector<float> dy, dk, dv;                  // (n, dim), (n, kv_dim) twice: gradients
  std::vector<float> d_out;                       // (n, dim) eagle3: out's, from the next step
};

// in (n, map_inputs()) of steps[k], what W multiplies, where form.maps(k); of an adapter
// u / rms(u).
void block_inputs(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                  std::span<BlockStep> steps);

// Fills steps[k]; the steps before it are there.
void block_forward(const Gemm& gemm, const LearningHead& head, const BlockForm& form,
                   const PassageBatch& batch, int k, std::span<BlockStep> steps);

// All gradients of steps[k] become zeros.
void clear_gradients(const BlockForm& form, const PassageBatch& batch, int k,
                     std::span<BlockStep> steps);

// Adds to the gradients of `head` from steps[k].dy, to what leaves steps[k - 1] and to dk and dv of
// the steps up to k; those after k are done.
void block_backward(const Gemm& gemm, LearningHead& head, const BlockForm& form,
                    const PassageBatch& batch, int k, std::span<BlockStep> steps);

}  // namespace specbound
