#include "runtime/gpu_findings.h"

#include "engine/cuda/cublas.h"
#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "json/or_null.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;
using State = GpuSurvey::State;

constexpr double kProbeSeconds = 0.2;

// How much of the bundled model's context fits.
void fit_model(const std::string& model, GpuFinding& gpu) {
  const Gguf gguf = Gguf::open(model);
  const ModelConfig config = read_config(gguf);
  if (!why_not_on_gpu(config).empty()) return;
  gpu.model_context = config.max_seq_len;
  gpu.context = largest_context(config, map_weights(gguf, config), {}, *gpu.free_bytes);
}

GpuFinding examine(const DeviceInfo& info, const std::string& bundled_model) {
  GpuFinding gpu;
  gpu.info = info;
  try {
    const std::unique_ptr<Device> device = gpu_engine().open(info.index);
    gpu.info = device->info();
    gpu.free_bytes = device->free_bytes();
    gpu.read_bandwidth = gpu_engine().read_bandwidth(*device, kProbeSeconds);
    if (!bundled_model.empty()) fit_model(bundled_model, gpu);
  } catch (const Error& e) {
    gpu.failure = e.what();
  }
  return gpu;
}

const char* state_name(State state) {
  constexpr const char* kNames[] = {"not-built", "no-driver", "old-driver", "no-gpu", "ready"};
  static_assert(std::size(kNames) == static_cast<size_t>(State::kReady) + 1);
  return kNames[static_cast<size_t>(state)];
}

double gigabytes(size_t bytes) {
  return 1e-9 * static_cast<double>(bytes);
}

std::string cuda_text(int version) {
  return format("CUDA %d.%d", version / 1000, version % 1000 / 10);
}

void add_lines(const GpuFinding& gpu, std::vector<std::string>& lines) {
  const DeviceInfo& info = gpu.info;
  lines.push_back(format("cuda:%d %s, compute capability %d.%d, %d multiprocessors", info.index,
                         info.name.c_str(), info.sm / 10, info.sm % 10, info.multiprocessors));
  std::string line = format("%.1f GB", gigabytes(info.total_bytes));
  if (gpu.free_bytes) line += format(", %.1f GB free", gigabytes(*gpu.free_bytes));
  if (gpu.read_bandwidth) line += format(", %.1f GB/s read", 1e-9 * *gpu.read_bandwidth);
  if (!info.kernels.empty()) line += ", kernels: " + info.kernels;
  lines.push_back(line);
  if (gpu.context) {
    const int most = gpu.model_context;
    lines.push_back("bundled model: " +
                    (*gpu.context >= most ? format("its whole context of %d positions fits", most)
                     : *gpu.context > 0   ? format("%d of its %d positions fit", *gpu.context, most)
                                          : std::string("does not fit")));
  }
  if (!gpu.failure.empty()) lines.push_back("failed: " + gpu.failure);
}

}  // namespace

GpuFindings examine_gpus(const std::string& bundled_model) {
  GpuFindings findings;
  findings.survey = gpu_engine().survey();
  if (findings.survey.state != State::kReady) return findings;
  findings.cublas = cublas_found();
  for (const DeviceInfo& info : findings.survey.gpus) {
    findings.gpus.push_back(examine(info, bundled_model));
  }
  return findings;
}

std::vector<std::string> gpu_lines(const GpuFindings& findings) {
  if (findings.survey.state == State::kNotBuilt) {
    return {"none: " + findings.survey.why_not +
            "; CUDA toolkit 13 makes one that has (docs/cuda.md)"};
  }
  if (findings.survey.state != State::kReady) return {"none: " + findings.survey.why_not};
  std::vector<std::string> lines;
  for (const GpuFinding& gpu : findings.gpus) add_lines(gpu, lines);
  const GpuSurvey& survey = findings.survey;
  lines.push_back(
      format("driver %s (%s), %s", survey.driver.empty() ? "unknown" : survey.driver.c_str(),
             cuda_text(survey.driver_cuda).c_str(),
             findings.cublas.empty() ? "no cuBLAS: train-heads runs on the CPU, no --prefill cublas"
                                     : findings.cublas.c_str()));
  return lines;
}

Json gpu_findings_json(const GpuFindings& findings) {
  const GpuSurvey& survey = findings.survey;
  Json gpus = Json::array();
  for (const GpuFinding& gpu : findings.gpus) {
    const DeviceInfo& info = gpu.info;
    gpus.push_back({{"index", info.index},
                    {"name", info.name},
                    {"compute_capability", format("%d.%d", info.sm / 10, info.sm % 10)},
                    {"multiprocessors", info.multiprocessors},
                    {"total_bytes", info.total_bytes},
                    {"free_bytes", or_null(gpu.free_bytes)},
                    {"read_bytes_per_second", or_null(gpu.read_bandwidth)},
                    {"kernels", or_null(info.kernels)},
                    {"bundled_model_context", or_null(gpu.context)},
                    {"failure", or_null(gpu.failure)}});
  }
  return {{"backend_in_this_build", gpu_engine().built()},
          {"state", state_name(survey.state)},
          {"why_not", or_null(survey.why_not)},
          {"driver", or_null(survey.driver)},
          {"cuda_version", survey.driver_cuda > 0 ? Json(survey.driver_cuda) : Json(nullptr)},
          {"cublas", or_null(findings.cublas)},
          {"gpus", gpus}};
}

}  // namespace specbound
