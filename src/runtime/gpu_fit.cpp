#include "runtime/gpu_fit.h"

#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/check_memory.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "runtime/gpu.h"
#include "runtime/heads_path.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

// What heads beside the model would take; 0: there are none, or none that fit it.
size_t heads_bytes(const Gguf& model, const ModelConfig& config, int n_ctx) {
  try {
    const ExitHeads heads = ExitHeads::open(heads_path(model.path(), model), model, config);
    const int shortlist = static_cast<int>(heads.shortlist().size());
    return device_heads_bytes(heads, shortlist, config, false, n_ctx);
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

Json gpu_json(const Gguf& model, const ModelConfig& config, const Weights& weights) {
  const GpuSurvey survey = gpu_engine().survey();
  if (survey.state != GpuSurvey::State::kReady) return nullptr;
  const DeviceInfo& gpu = survey.gpus.front();
  Json json = {{"name", gpu.name}, {"total_bytes", gpu.total_bytes}, {"runs", false}};
  if (const std::string why_not = why_not_on_gpu(config); !why_not.empty()) {
    json["reason"] = why_not;
    return json;
  }
  MemoryRequest request;
  request.n_ctx = checked_context(0, config);
  request.heads = heads_bytes(model, config, request.n_ctx);
  const MemoryPlan plan = plan_memory(config, weights, request);
  const int most = largest_context(config, weights, request, gpu.total_bytes);
  json["runs"] = most >= request.n_ctx;
  json["reason"] = nullptr;
  json["context"] = request.n_ctx;
  json["largest_context"] = most;
  json["bytes"] = {{"total", plan.total()},       {"weights", plan.weights},
                   {"exit_heads", plan.heads},    {"kv_cache", plan.kv},
                   {"workspace", plan.workspace}, {"reserve", plan.reserve}};
  if (most < request.n_ctx) {
    json["reason"] = most > 0 ? format("too large at that context; -c %d fits", most)
                              : std::string("too large at any context");
  }
  return json;
}

}  // namespace specbound
