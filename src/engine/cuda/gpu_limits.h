// Which models the kernels can run. Free of kernels: builds without CUDA can say it too.
#pragma once

#include <string>

#include "model/config.h"

namespace specbound {

// Why not; empty: they can.
std::string why_not_on_gpu(const ModelConfig& config);

}  // namespace specbound
