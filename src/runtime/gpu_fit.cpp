#include "runtime/gpu_fit.h"

#include <optional>

#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/check_memory.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "runtime/gpu.h"
#include "runtime/heads_path.h"

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

// The whole model with the context that it gets by itself, and its heads, which must outlive it.
MemoryRequest whole_model(const ModelConfig& config, const std::optional<ExitHeads>& heads,
                          KvType kv) {
  MemoryRequest request;
  request.n_ctx = checked_context(0, config);
  request.kv = kv;
  if (heads) {
    const int shortlist = static_cast<int>(heads->shortlist().size());
    request.heads = [&config, &heads = *heads, shortlist, kv](int n_ctx) {
      return device_heads_bytes(heads, shortlist, config, false, n_ctx, kv);
    };
  }
  return request;
}

}  // namespace

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
  const std::optional<ExitHeads> heads = heads_beside(model, config);
  const MemoryRequest request = whole_model(config, heads, KvType::kFp16);
  const MemoryPlan plan = plan_memory(config, weights, request);
  const int most = largest_context(config, weights, request, gpu.total_bytes);
  json["runs"] = most >= request.n_ctx;
  json["reason"] = nullptr;
  json["context"] = request.n_ctx;
  const int most_int8 =
      largest_context(config, weights, whole_model(config, heads, KvType::kInt8), gpu.total_bytes);
  json["largest_context"] = most;
  json["largest_context_kv_int8"] = most_int8;
  // At that context: more than there are where the output fits too.
  json["layers"] = most >= request.n_ctx ? config.n_layers + 1
                                         : most_layers(config, weights, request, gpu.total_bytes);
  json["bytes"] = {{"total", plan.total()},       {"weights", plan.weights},
                   {"exit_heads", plan.heads},    {"kv_cache", plan.kv},
                   {"workspace", plan.workspace}, {"reserve", plan.reserve}};
  if (most < request.n_ctx) {
    std::string reason = most > 0 ? format("too large at that context; -c %d fits", most)
                                  : std::string("too large at any context");
    if (most_int8 > most) reason += format("; -c %d with --kv int8", most_int8);
    const int layers = json["layers"];
    if (layers > 0) reason += format("; -ngl %d of %d layers fits", layers, config.n_layers);
    json["reason"] = reason;
  }
  return json;
}

}  // namespace specbound
