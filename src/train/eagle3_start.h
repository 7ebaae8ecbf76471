// Where an EAGLE-3 layer begins to learn. Its token reaches the residual stream through attention
// alone, so least squares gives more than W: a map M of what is said from the token, which the
// block has to make of a V, an O and heads that look at their own position.
#pragma once

#include <vector>

#include "train/block_form.h"
#include "train/training_step.h"

namespace specbound {

// `map` (dim, map_inputs() + dim) is [W M], of the states and of e / rms(e). The other weights of
// the block hold what a layer begins with. M becomes O V of the rank that V can have; the first
// head of each group attends to where its position's token stands, all others say nothing yet.
void start_eagle3(const Gemm& gemm, const BlockForm& form, const std::vector<float>& map,
                  uint64_t seed, LearningHead& head);

}  // namespace specbound
