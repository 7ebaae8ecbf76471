// The first layers of a model on a GPU, the rest elsewhere (engine/first_layers.h). Rows cross over
// before and behind every run; prompts take decode's passes of 16 rows, so that INT8 weights give
// the CPU engine's bits for them too: the GPU is not what a prompt waits for.
#pragma once

#include <memory>

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device.h"
#include "engine/first_layers.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

// Layers 1..n_layers, without embedding and head. 1 <= n_layers <= config.n_layers;
// options.heads_bytes and options.prefill have no say here. `weights` are not needed afterwards.
// Throws as make_cuda_backend().
std::unique_ptr<FirstLayers> make_first_layers(std::unique_ptr<Device> device,
                                               const ModelConfig& config, const Weights& weights,
                                               const CudaOptions& options, int n_layers);

}  // namespace specbound
