// Draft layers while they learn (`layer` and `eagle` of model/exit_heads.h): passages of texts in
// place of rows, since their one block attends to what stands before. layer_block.h has the block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/weights.h"
#include "train/batches.h"
#include "train/head_learner.h"
#include "train/layer_block.h"
#include "train/training_step.h"

namespace specbound {

class TokenRows;

// Rows of a text that attend to each other while they learn.
inline constexpr int kMostPassage = 512;

// A layer of the widths of `form`, all zeros but its norm, which is the form's. `steps` are those
// that it goes on its own states.
LearningHead layer_head(const BlockForm& form, int steps);

// Head `h` begins with W from least squares; the block, whose outputs are zero at first, adds
// nothing to it. The norm gets the factor that brings what is said nearest to the model's states.
void start_layer(const Gemm& gemm, const LearningTask& task, size_t h,
                 const std::vector<float>& map, uint64_t seed);

// Of layer index `x_index` for layers; an eagle layer has tokens of `token_rows` in its place. Both
// go `n_steps` steps. Passages in which nothing is learnt are left out.
struct PassagePlan {
  HeadKind kind;
  int x_index;
  const TokenRows* token_rows;
  int n_steps;
};
void fill_passages(const Chunks& chunks, const PassagePlan& plan, std::span<const RowAt> passages,
                   PassageBatch& batch);

// Learning on the CPU: what make_cpu_learner() is for other kinds. LearningTask::forms are those
// of its heads.
std::unique_ptr<HeadLearner> make_layer_learner(const Gemm& gemm, const LearningTask& task);

// The head as a file has it; factors are in its weights.
NewHead finished_layer(const LearningHead& head, const BlockForm& form,
                       const TokenRows* token_rows);

}  // namespace specbound
