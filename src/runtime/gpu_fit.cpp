#include "runtime/gpu_fit.h"

#include <optional>

#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/check_memory.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "library/heads_path.h"
#include "runtime/gpu.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

// Heads beside the model; none: there are none, or none that fit it.
std::optional<ExitHeads> heads_beside(const Gguf& model, const ModelConfig& config) {
  try {
    return ExitHeads::open(heads_path(model.path(), model), model, config);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

MemoryRequest whole_model(const ModelConfig& config, const ExitHeads* heads, int n_ctx, KvType kv,
                          GpuDtype dtype) {
  MemoryRequest request;
  request.dtype = dtype;
  request.n_ctx = n_ctx;
  request.kv = kv;
  if (heads) {
    // At most: what is looked at is known once there is a backend.
    const int shortlist = static_cast<int>(heads->shortlist().size());
    request.heads = [&config, heads, shortlist, kv](int context) {
      return device_heads_bytes(*heads, shortlist, config, false, context, kv);
    };
  }
  return request;
}

GpuFit fit_on_gpu(const Gguf& model, const ModelConfig& config, const Weights& weights,
                  size_t free_bytes) {
  const std::optional<ExitHeads> heads = heads_beside(model, config);
  GpuFit fit;
  fit.n_ctx = checked_context(0, config);
  const auto request = [&](KvType kv) {
    return whole_model(config, heads ? &*heads : nullptr, fit.n_ctx, kv);
  };
  const MemoryRequest fp16 = request(KvType::kFp16);
  fit.plan = plan_memory(config, weights, fp16);
  fit.context = largest_context(config, weights, fp16, free_bytes);
  fit.context_int8 = largest_context(config, weights, request(KvType::kInt8), free_bytes);
  fit.layers = fit.context >= fit.n_ctx ? config.n_layers + 1
                                        : most_layers(config, weights, fp16, free_bytes);
  return fit;
}

Json gpu_json(const Gguf& model, const ModelConfig& config, const Weights& weights) {
  const GpuSurvey survey = gpu_engine().survey();
  if (survey.state != GpuSurvey::State::kReady) return nullptr;
  const DeviceInfo& gpu = survey.gpus.front();
  Json json = {{"name", gpu.name}, {"total_bytes", gpu.total_bytes}, {"runs", false}};
  if (const std::string why_not = why_not_on_gpu(config, weights, GpuDtype::kAsStored);
      !why_not.empty()) {
    json["reason"] = why_not;
    return json;
  }
  const GpuFit fit = fit_on_gpu(model, config, weights, gpu.total_bytes);
  const MemoryPlan& plan = fit.plan;
  json["runs"] = fit.context >= fit.n_ctx;
  json["reason"] = nullptr;
  json["context"] = fit.n_ctx;
  json["largest_context"] = fit.context;
  json["largest_context_kv_int8"] = fit.context_int8;
  json["layers"] = fit.layers;
  json["bytes"] = {{"total", plan.total()},       {"weights", plan.weights},
                   {"exit_heads", plan.heads},    {"kv_cache", plan.kv},
                   {"workspace", plan.workspace}, {"reserve", plan.reserve}};
  if (fit.context < fit.n_ctx) {
    std::string reason = fit.context > 0
                             ? format("too large at that context; -c %d fits", fit.context)
                             : std::string("too large at any context");
    if (fit.context_int8 > fit.context) {
      reason += format("; -c %d with --kv int8", fit.context_int8);
    }
    if (fit.layers > 0)
      reason += format("; -ngl %d of %d layers fits", fit.layers, config.n_layers);
    json["reason"] = reason;
  }
  return json;
}

}  // namespace specbound
