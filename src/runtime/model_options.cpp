#include "runtime/model_options.h"

#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "runtime/number_text.h"

namespace specbound {

namespace {

constexpr const char* kGoOn = "leave out device=cuda to run on the CPU";

// As it was asked for.
std::string name_of(const DeviceOptions& options) {
  return options.gpu ? format("device=cuda:%d", *options.gpu) : "device=cuda";
}

// The options that only a GPU has a use for, as they were given.
std::string gpu_only(const DeviceOptions& options) {
  std::string text;
  if (options.dtype != GpuDtype::kAsStored) {
    text = std::string("dtype=") + gpu_dtype_name(options.dtype);
  }
  if (options.prefill != PrefillPath::kOwn) {
    text += std::string(text.empty() ? "" : " ") + "prefill=cublas";
  }
  return text;
}

void check_cpu(const DeviceOptions& options, bool all_layers) {
  const bool cpu = options.where == DeviceOptions::Where::kCpu;
  if (cpu ? all_layers : options.where == DeviceOptions::Where::kCuda) {
    throw Error(ErrorCode::kUsage,
                format("%s and n_gpu_layers=%s contradict each other: leave out one of them",
                       cpu ? "device=cpu" : name_of(options).c_str(), cpu ? "all" : "0"));
  }
  if (const std::string useless = gpu_only(options); !useless.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: for a GPU only, found %s: the CPU takes weights as stored, and reads "
                       "prompts in its own way",
                       useless.c_str(), cpu ? "device=cpu" : "n_gpu_layers=0"));
  }
}

// The number of a GPU of the survey.
int pick_gpu(const DeviceOptions& options, const GpuSurvey& survey) {
  SB_CHECK(!survey.gpus.empty());
  if (!options.gpu) return survey.gpus.front().index;
  for (const DeviceInfo& gpu : survey.gpus) {
    if (gpu.index == *options.gpu) return gpu.index;
  }
  const std::string there = joined(survey.gpus, ", ", [](const DeviceInfo& gpu) {
    return format("cuda:%d (%s)", gpu.index, gpu.name.c_str());
  });
  throw Error(ErrorCode::kUsage, format("%s: there is no such GPU; there is %s",
                                        name_of(options).c_str(), there.c_str()));
}

// Why no GPU can be asked.
[[noreturn]] void refuse(const DeviceOptions& options, const GpuSurvey& survey) {
  if (survey.state == GpuSurvey::State::kNotBuilt) {
    throw Error(ErrorCode::kUsage,
                format("%s: %s: build it where a CUDA toolkit is installed, or %s",
                       name_of(options).c_str(), survey.why_not.c_str(), kGoOn));
  }
  throw Error(ErrorCode::kDevice,
              format("%s: %s; %s", name_of(options).c_str(), survey.why_not.c_str(), kGoOn));
}

}  // namespace

CpuOptions ModelOptions::cpu_options() const {
  CpuOptions options;
  options.n_ctx = n_ctx;
  options.n_threads = n_threads;
  options.n_sequences = n_sequences;
  options.repack = !no_repack;
  if (isa == "portable") {
    options.isa = Isa::kPortable;
  } else if (isa == "avx2") {
    options.isa = Isa::kAvx2;
  } else if (isa == "avx512") {
    options.isa = Isa::kAvx512Vnni;
  } else if (isa != "auto") {
    throw Error(ErrorCode::kUsage,
                format("isa=%s: expected auto, portable, avx2 or avx512", printable(isa).c_str()));
  }
  if (!isa_supported(options.isa)) {
    throw Error(
        ErrorCode::kUsage,
        format("isa=%s: this CPU lacks it; specbound doctor lists what it has", isa.c_str()));
  }
  return options;
}

bool DeviceOptions::all_layers(int n_layers) const {
  if (!layers || *layers == 0) return false;
  if (*layers > n_layers) return true;
  throw Error(ErrorCode::kUsage, format("n_gpu_layers=%d: expected 0 or all (%d or more); the "
                                        "model has %d layers and the output, "
                                        "which cannot be split between GPU and CPU",
                                        *layers, n_layers + 1, n_layers));
}

std::optional<int> gpu_number(const std::string& device) {
  constexpr std::string_view kCuda = "cuda:";
  constexpr uint64_t kMost = 1 << 16;
  if (!device.starts_with(kCuda)) return std::nullopt;
  const std::optional<uint64_t> number = parse_uint(std::string_view(device).substr(kCuda.size()));
  return number && *number <= kMost ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

void read_device(DeviceOptions& options, const std::string& device) {
  using Where = DeviceOptions::Where;
  options.gpu = gpu_number(device);
  options.where = device == "cuda" || options.gpu ? Where::kCuda
                  : device == "cpu"               ? Where::kCpu
                                                  : Where::kAuto;
  if (options.where != Where::kAuto || device == "auto") return;
  throw Error(ErrorCode::kUsage, format("expected auto, cpu, cuda or cuda:N, found \"%s\"",
                                        printable(device).c_str()));
}

DeviceChoice choose_device(const DeviceOptions& options, const ModelConfig& config,
                           const std::function<GpuSurvey()>& survey) {
  using Where = DeviceOptions::Where;
  const bool all = options.all_layers(config.n_layers);
  if (options.where == Where::kCpu || options.layers == 0) {
    check_cpu(options, all);
    return {};
  }
  const GpuSurvey found = survey();
  const bool ready = found.state == GpuSurvey::State::kReady;
  if (!ready && options.where == Where::kCuda) refuse(options, found);
  std::string why_not = found.why_not;
  if (ready) {
    why_not = why_not_on_gpu(config);
    if (why_not.empty()) return {pick_gpu(options, found), ""};
    why_not = "the GPU kernels cannot run this model: " + why_not;
    if (all || options.where == Where::kCuda) {
      throw Error(ErrorCode::kUnsupported,
                  format("%s: %s; %s", all ? "n_gpu_layers=all" : name_of(options).c_str(),
                         why_not.c_str(), "device=cpu runs it"));
    }
  }
  std::string asked = all ? "n_gpu_layers=all" : "";
  if (const std::string useless = gpu_only(options); !useless.empty()) {
    asked += (asked.empty() ? "" : " ") + useless;
  }
  if (asked.empty() && found.state == GpuSurvey::State::kNotBuilt) return {};
  return {std::nullopt, (asked.empty() ? "" : asked + ": ") + why_not +
                            ": every layer runs on the CPU, with weights as stored"};
}

}  // namespace specbound
