// Whether a model can run on the GPU, and what it would take there.
#pragma once

#include <nlohmann/json.hpp>

#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace specbound {

// Of the first GPU, at the default context, with the exit heads that lie beside the model. null
// where no GPU can be used.
nlohmann::ordered_json gpu_json(const Gguf& model, const ModelConfig& config,
                                const Weights& weights);

}  // namespace specbound
