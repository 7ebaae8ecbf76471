// Draft layers while they learn (`layer`, `eagle`, `eagle3` and `kangaroo` of model/exit_heads.h):
// passages of texts in place of rows, since their one block attends to what stands before.
// layer_block.h has the block, block_form.h what its kinds differ in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "train/head_learner.h"
#include "train/layer_block.h"

namespace specbound {

class TokenRows;

// The form that a layer of this kind has for these features and options.
BlockForm layer_form(HeadKind kind, const FeatureSource& features, const TrainOptions& options);

// A layer of the widths of `form`, all zeros but its norms, which are the form's. `steps` are those
// that it goes on its own states, if it does.
LearningHead layer_head(const BlockForm& form, int steps);

// Head `h` begins with the map that least squares gives (`equations` of its learner, which are used
// up, solved with this ridge): W, if it has one; the block, whose outputs are zero at first, adds
// nothing to it but, of eagle3 and adapters, what attention has of the map (block_start.h). The
// last norm gets the factor that brings what is said nearest to the model's states. False as soon
// as `progress`, told how much is done (0..1), says so.
bool start_layer(const Gemm& gemm, const LearningTask& task, size_t h, LeastSquares& equations,
                 double ridge, uint64_t seed, const std::function<bool(double)>& progress);

// Learning on the CPU: what make_cpu_learner() is for other kinds. LearningTask::forms are those
// of its heads.
std::unique_ptr<HeadLearner> make_layer_learner(const Gemm& gemm, const LearningTask& task);

// The head as a file has it; factors are in its weights. What an eagle3 layer has of the model, V,
// and the layers that states are of, are not among them.
NewHead finished_layer(const LearningHead& head, const BlockForm& form,
                       const TokenRows* token_rows);

}  // namespace specbound
