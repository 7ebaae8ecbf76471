// Medusa and hydra heads while they learn (Medusa, arXiv 2401.10774, its heads alone; Hydra, arXiv
// 2402.05109): one block a place behind the root, then the model's own lm_head, which stays as it
// is. Place k of a row that follows another learns the model's own distribution k - 1 positions on,
// from the state before the row; hydra from the text's tokens up to there too.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/weights.h"
#include "train/batches.h"
#include "train/training_step.h"

namespace specbound {

// What heads by place look at in rows of a text, each value times a factor that brings states and
// rows of the model's embedding to a root mean square of about 1: steps of AdamW are of one size
// whatever the size of what they are multiplied by.
class TokenRows {
 public:
  // `embedding` (vocab_size, dim); `state_size` of state_size().
  TokenRows(const Matrix& embedding, double state_size);

  float state_factor() const { return state_factor_; }
  float token_factor() const { return token_factor_; }
  void read(int32_t token, float* row) const;  // (dim), with its factor
  // e / rms(e) in place of e.
  void read_normed(int32_t token, float eps, float* row) const;

 private:
  Matrix embedding_;
  float state_factor_ = 1, token_factor_ = 1;
};

// Inputs of place k, from 1.
inline int place_inputs(const LearningHead& head, size_t k) {
  return head.kind == HeadKind::kHydra ? static_cast<int>(k + 1) * head.dim : head.dim;
}

// The root mean square of the values of states, of the first chunk that has rows.
double state_size(const FeatureSource& features);

// Of n places, all zeros: a medusa head then says of each place what follows the state itself.
LearningHead place_head(HeadKind kind, int dim, int n);

// u (n, (k + 1) dim) = [s; e_1; ..; e_k] of the first n rows of `batch`, with their factors.
void chain_inputs(const TokenRows& rows, const TrainingBatch& batch, size_t k, int n,
                  std::vector<float>& u);

// y of place k, from 1, of the first n rows of `batch`.
void place_forward(const Gemm& gemm, const LearningHead& head, size_t k, int n,
                   const TrainingBatch& batch, const TokenRows& rows, HeadStep& step);

// Puts R of a hydra head where least squares has it, over the training rows: of as many places at a
// time as have their equations in `most_bytes`, at least one. False when `progress`, told what is
// done (0..1), says so.
struct PlaceEquations {
  double ridge;
  size_t most_bytes;
};
bool solve_places(const Gemm& gemm, const FeatureSource& features, const RowSplit& split,
                  const TokenRows& rows, const PlaceEquations& how, LearningHead& head,
                  const std::function<bool(double)>& progress);

// The head as a file has it, without an lm_head of its own; the factors are in its weights.
NewHead finished_places(const LearningHead& head, const TokenRows& rows);

}  // namespace specbound
