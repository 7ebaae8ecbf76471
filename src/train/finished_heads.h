// Heads that have learnt, as a heads file takes them.
#pragma once

#include <cstdint>
#include <span>

#include "model/exit_heads.h"
#include "train/training_step.h"

namespace specbound {

struct TrainOptions;

// Without what its confidence is worth: margins and temperature. `form`: of a draft layer; `step`:
// what it learnt in.
NewHead finished_head(const Gemm& gemm, const TrainingStep& step, const LearningHead& head,
                      const BlockForm* form, std::span<const int32_t> shortlist,
                      const TrainOptions& options);

// Until the file is tuned: a chained head at its first layer, or all others that d_max reaches;
// with none of these what stands before the layers.
HeadDefaults untuned_defaults(std::span<const LearningHead> heads, int shortlist, int n_layers);

}  // namespace specbound
