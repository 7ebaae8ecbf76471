#include "engine/cuda/memory_plan.h"

#include <algorithm>
#include <string>

#include "engine/cuda/workspace.h"
#include "engine/row_paths.h"
#include "error.h"
#include "kernels/attention.h"
#include "kernels/experts.h"
#include "kernels/sampling.h"

namespace specbound {

namespace {

// Of an expert's matrices one that does not take INT8 rows, or null.
const Matrix* float_expert(const Weights& weights, GpuDtype dtype) {
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix* m : {&layer.w_gate, &layer.w_up, &layer.w_down}) {
      if (!becomes_int8(*m, dtype)) return m;
    }
  }
  return nullptr;
}

std::string why_not_experts(const ModelConfig& config, const Weights& weights, GpuDtype dtype) {
  if (config.n_experts > kernels::kMaxExperts ||
      config.n_experts_used > kernels::kMaxExpertsOfRow) {
    return format("its rows take %d of %d experts, the kernels take up to %d of %d",
                  config.n_experts_used, config.n_experts, kernels::kMaxExpertsOfRow,
                  kernels::kMaxExperts);
  }
  // Whole tiles of each, and whole blocks of what goes into them.
  if (config.dim % kQuantBlock != 0 || config.ffn_dim % kQuantBlock != 0) {
    return format("its experts have %d and %d values, the kernels take multiples of %d", config.dim,
                  config.ffn_dim, kQuantBlock);
  }
  if (const Matrix* odd = float_expert(weights, dtype)) {
    return format("its experts are %s, the kernels take quantized ones, or dtype=int8",
                  dtype == GpuDtype::kFp16 ? "fp16" : dtype_info(odd->type)->name);
  }
  return "";
}

}  // namespace

std::string why_not_on_gpu(const ModelConfig& config, const Weights& weights, GpuDtype dtype) {
  if (config.n_experts > 0) {
    const std::string why_not = why_not_experts(config, weights, dtype);
    if (!why_not.empty()) return why_not;
  }
  if (config.head_dim % 8 != 0 || config.head_dim > kernels::kMaxHeadDim) {
    return format("its heads have %d dimensions, the kernels take multiples of 8 up to %d",
                  config.head_dim, kernels::kMaxHeadDim);
  }
  if (config.dim % 4 != 0) {
    return format("its rows have %d values, the kernels take multiples of 4", config.dim);
  }
  if (config.vocab_size > kernels::kMaxLogits) {
    return format("its vocabulary has %d tokens, the kernels take up to %d", config.vocab_size,
                  kernels::kMaxLogits);
  }
  return "";
}

void require_kernels_for(const ModelConfig& config, const Weights& weights, GpuDtype dtype) {
  const std::string why = why_not_on_gpu(config, weights, dtype);
  if (why.empty()) return;
  throw Error(ErrorCode::kUnsupported,
              format("the GPU cannot run this model: %s; device=cpu runs it", why.c_str()));
}

namespace {

constexpr size_t kReserve = size_t{256} << 20;

std::string size_text(size_t bytes) {
  const bool large = bytes >= 1'000'000'000;
  return format("%.1f %s", static_cast<double>(bytes) / (large ? 1e9 : 1e6), large ? "GB" : "MB");
}

// "weights 7.1 GB, K/V for n_ctx=4096 2.1 GB, ..."
std::string parts_text(const MemoryPlan& plan, const MemoryRequest& request) {
  std::string text = "weights " + size_text(plan.weights);
  if (request.layers) text = format("%d layers' ", *request.layers) + text;
  if (plan.heads > 0) text += ", exit heads " + size_text(plan.heads);
  return text + format(", K/V for n_ctx=%d %s, workspace %s, reserve %s", request.n_ctx,
                       size_text(plan.kv).c_str(), size_text(plan.workspace).c_str(),
                       size_text(plan.reserve).c_str());
}

}  // namespace

MemoryPlan plan_memory(const ModelConfig& config, const Weights& weights,
                       const MemoryRequest& request) {
  if (request.layers) {
    ModelConfig part = config;
    part.n_layers = *request.layers;
    return {weight_sizes(part, first_layers(weights, part.n_layers), request.dtype).total(), 0,
            kv_cache_bytes(part, request.n_ctx, request.kv),
            layers_workspace_bytes(part, request.n_ctx, kMaxRows), kReserve};
  }
  return {weight_sizes(config, weights, request.dtype).total(),
          request.heads ? request.heads(request.n_ctx) : 0,
          request.n_sequences * kv_cache_bytes(config, request.n_ctx, request.kv),
          cuda_workspace_bytes(config, request.n_ctx) + request.cublas, kReserve};
}

int sequences_that_fit(const ModelConfig& config, const Weights& weights, MemoryRequest request,
                       int most, size_t free_bytes) {
  request.n_sequences = 1;
  const size_t taken = plan_memory(config, weights, request).total() + request.later;
  const size_t left = free_bytes - std::min(free_bytes, taken);
  const size_t further = left / 2 / kv_cache_bytes(config, request.n_ctx, request.kv);
  return 1 + static_cast<int>(std::min<size_t>(most - 1, further));
}

int largest_context(const ModelConfig& config, const Weights& weights, MemoryRequest request,
                    size_t free_bytes) {
  constexpr int kStep = 64;
  const int most = std::max(config.max_seq_len, request.n_ctx);
  int fits = 0, too_many = (most + kStep - 1) / kStep + 1;  // steps
  while (too_many - fits > 1) {
    const int middle = fits + (too_many - fits) / 2;
    request.n_ctx = std::min(middle * kStep, most);
    (plan_memory(config, weights, request).total() <= free_bytes ? fits : too_many) = middle;
  }
  return std::min(fits * kStep, most);
}

int most_layers(const ModelConfig& config, const Weights& weights, MemoryRequest request,
                size_t free_bytes) {
  for (int n = config.n_layers; n > 0; --n) {
    request.layers = n;
    if (plan_memory(config, weights, request).total() <= free_bytes) return n;
  }
  return 0;
}

std::string shortage_text(const MemoryPlan& plan, size_t free_bytes, size_t total_bytes) {
  return format("needs %s, found %s of %s free", size_text(plan.total()).c_str(),
                size_text(free_bytes).c_str(), size_text(total_bytes).c_str());
}

void require_fits(const ModelConfig& config, const Weights& weights, const MemoryRequest& request,
                  size_t free_bytes, size_t total_bytes) {
  const MemoryPlan plan = plan_memory(config, weights, request);
  if (plan.total() <= free_bytes) return;
  const int context = largest_context(config, weights, request, free_bytes);
  const std::string fits = context > 0
                               ? format("n_ctx=%d is the largest context that fits", context)
                               : std::string("no context (n_ctx=N) is small enough");
  std::string help = "device=cpu";
  const int layers = request.cublas > 0 ? 0 : most_layers(config, weights, request, free_bytes);
  if (layers > 0) help += format(" or n_gpu_layers=%d", layers);
  MemoryRequest smaller = request;
  smaller.dtype = GpuDtype::kInt8;
  const size_t int8 = plan_memory(config, weights, smaller).total();
  if (int8 < plan.total()) help += format(" or dtype=int8 (%s)", size_text(int8).c_str());
  smaller = request;
  smaller.kv = KvType::kInt8;
  const size_t kv_int8 = plan_memory(config, weights, smaller).total();
  if (kv_int8 < plan.total()) help += format(" or kv=int8 (%s)", size_text(kv_int8).c_str());
  if (plan.total() <= total_bytes) help += " or closing other programs";
  throw Error(
      ErrorCode::kLimit,
      format("not enough memory on the GPU: needs %s (%s), found %s of %s free; %s; %s would help",
             size_text(plan.total()).c_str(), parts_text(plan, request).c_str(),
             size_text(free_bytes).c_str(), size_text(total_bytes).c_str(), fits.c_str(),
             help.c_str()));
}

}  // namespace specbound
