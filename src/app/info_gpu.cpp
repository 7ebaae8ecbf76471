#include "app/info_gpu.h"

#include <cstdio>

#include "app/gpu.h"
#include "app/heads_path.h"
#include "app/terminal_text.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/gpu_limits.h"
#include "engine/cuda/head_layout.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

double megabytes(const Json& bytes) {
  return 1e-6 * static_cast<double>(bytes.get<uint64_t>());
}

// What heads beside the model would take; 0: there are none, or none that fit it.
size_t heads_bytes(const Gguf& model, const ModelConfig& config, int n_ctx) {
  try {
    const ExitHeads heads = ExitHeads::open(sidecar_heads(model.path()), model, config);
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

void print_gpu(const Json& gpu) {
  if (gpu.is_null()) return;
  const std::string reason = gpu["reason"].is_null() ? "" : gpu["reason"].get<std::string>();
  std::string line = terminal_text(gpu["name"].get_ref<const std::string&>());
  if (gpu.contains("bytes")) {
    const Json& bytes = gpu["bytes"];
    line += format(
        ", %.1f of %.1f MB at a context of %d (weights %.1f, exit heads %.1f, K/V %.1f, workspace "
        "%.1f, reserve %.1f)",
        megabytes(bytes["total"]), megabytes(gpu["total_bytes"]), gpu["context"].get<int>(),
        megabytes(bytes["weights"]), megabytes(bytes["exit_heads"]), megabytes(bytes["kv_cache"]),
        megabytes(bytes["workspace"]), megabytes(bytes["reserve"]));
  }
  std::printf("GPU         %s: %s%s%s\n", gpu["runs"] == true ? "yes" : "no", line.c_str(),
              reason.empty() ? "" : ": ", reason.c_str());
}

}  // namespace specbound
