// Whether a model can run on the GPU, and what it would take there.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/cuda/memory_plan.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace specbound {

// Of the whole model with these exit heads (null: none), which must outlive it as `config` must. By
// it a model is loaded, so by it everybody says what fits.
MemoryRequest whole_model(const ModelConfig& config, const ExitHeads* heads, int n_ctx, KvType kv,
                          GpuDtype dtype = GpuDtype::kAsStored);

struct GpuFit {
  int n_ctx = 0;         // the context that the model gets by itself
  MemoryPlan plan = {};  // of the whole model with it
  int context = 0;       // the most positions that fit,
  int context_int8 = 0;  // and with K/V of 8 bits
  int layers = 0;        // that fit with n_ctx; more than there are: the whole model
};

// Of a model that the kernels can run, with the exit heads that lie beside it.
GpuFit fit_on_gpu(const Gguf& model, const ModelConfig& config, const Weights& weights,
                  size_t free_bytes);

// Of the first GPU. null where no GPU can be used.
nlohmann::ordered_json gpu_json(const Gguf& model, const ModelConfig& config,
                                const Weights& weights);

}  // namespace specbound
