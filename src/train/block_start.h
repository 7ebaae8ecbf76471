// Where the attention of an EAGLE-3 layer or an adapter begins to learn. The token of the one and
// all that the other adds to its state come through it alone, so a map that least squares gives is
// made an O and a V of the rank that V can have, with heads that look at their own position.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/block_form.h"
#include "train/training_step.h"

namespace specbound {

// `map` (dim, n), n >= dim, is what least squares says the last state over its norm's weights is
// of inputs whose last dim are a: of eagle3 e / rms(e), behind the inputs of W, which becomes
// map's; of an adapter u / rms(u), and nothing before it. `moments` (dim, dim) is the sum of
// a a^T. The first head of each group attends to its own position, and what it says is the map of
// a, but an adapter's less u; all others say nothing yet. The other weights of the block hold what
// a layer begins with. Without inputs (all moments zeros) only W is set. A wide layer takes
// minutes: `progress`, told how much is done (0..1), may return false to stop; then this does.
bool start_attention(const Gemm& gemm, const BlockForm& form, const std::vector<float>& map,
                     const std::vector<double>& moments, uint64_t seed, LearningHead& head,
                     const std::function<bool(double)>& progress);

}  // namespace specbound
