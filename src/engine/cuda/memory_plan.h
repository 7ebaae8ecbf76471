// Which models a GPU can run, and what one takes there: known before any of it is taken, and free
// of kernels, so that builds without CUDA can say it too. docs/architecture.md 8.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "engine/cuda/weight_layout.h"
#include "engine/kv_type.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

// Why not; empty: they can.
std::string why_not_on_gpu(const ModelConfig& config, const Weights& weights, GpuDtype dtype);
// Throws Error(kUnsupported) where they cannot.
void require_kernels_for(const ModelConfig& config, const Weights& weights, GpuDtype dtype);

struct MemoryPlan {
  size_t weights = 0, heads = 0, kv = 0, workspace = 0;
  // For what is not counted: graphs, the kernels' own code, allocations rounded up by the driver.
  size_t reserve = 0;

  size_t total() const { return weights + heads + kv + workspace + reserve; }
};

struct MemoryRequest {
  GpuDtype dtype = GpuDtype::kAsStored;
  int n_ctx = 0;
  // Of exit heads that will be set, for texts of up to n_ctx tokens; null: none.
  std::function<size_t(int n_ctx)> heads = {};
  size_t cublas = 0;    // of prefill by cuBLAS, counted as workspace
  int n_sequences = 1;  // each with K/V of its own
  size_t later = 0;     // of what is loaded behind it: in sequences_that_fit() alone
  // The first so many alone, all else being the CPU's (engine/cuda/device_first_layers.h), exit
  // heads too; none: the whole model.
  std::optional<int> layers = {};
  KvType kv = KvType::kFp16;
};

// `weights` are not looked into: those of random_weights() do.
MemoryPlan plan_memory(const ModelConfig& config, const Weights& weights,
                       const MemoryRequest& request);

// The most layers that fit as request.layers, whatever that is; 0: not one.
int most_layers(const ModelConfig& config, const Weights& weights, MemoryRequest request,
                size_t free_bytes);

// "needs 7.1 GB, found 5.9 GB of 8.0 GB free"
std::string shortage_text(const MemoryPlan& plan, size_t free_bytes, size_t total_bytes);

// Throws Error(kLimit) when the plan is more than is free of the GPU's `total_bytes`: the numbers,
// the largest context and the most layers that fit, and what would help.
void require_fits(const ModelConfig& config, const Weights& weights, const MemoryRequest& request,
                  size_t free_bytes, size_t total_bytes);

// Sequences, 1..most, of a request that fits with one: half of what that and request.later leave
// free is for the K/V of the others.
int sequences_that_fit(const ModelConfig& config, const Weights& weights, MemoryRequest request,
                       int most, size_t free_bytes);

// Positions that fit, a multiple of 64 as far as the model's context allows (or request.n_ctx, if
// that is more); 0: not even the weights do.
int largest_context(const ModelConfig& config, const Weights& weights, MemoryRequest request,
                    size_t free_bytes);

}  // namespace specbound
