// The feed-forward of a mixture of experts on a GPU: the launches of kernels/experts.h. The
// counterpart of cpu/experts.h, with its bits.
#pragma once

#include "engine/cuda/device.h"
#include "engine/cuda/weight_layout.h"
#include "engine/cuda/workspace.h"
#include "model/config.h"

namespace specbound {

// H[pass->slot..] += what its experts give of each row's norm. max_rows: that the pass may have,
// 1..work.max_rows. Normed rows go where q, k and v were.
void run_experts(Device& device, const ModelConfig& config, const Workspace& work,
                 const kernels::Pass* pass, int max_rows, const DeviceLayer& w, float* h);

}  // namespace specbound
