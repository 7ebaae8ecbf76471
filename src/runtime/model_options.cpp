#include "runtime/model_options.h"

#include "engine/cuda/memory_plan.h"
#include "error.h"
#include "system/number_text.h"

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

// "n_gpu_layers=20", "n_gpu_layers=all"; empty: nothing is asked.
std::string layers_text(const DeviceOptions& options, int n_layers) {
  if (!options.layers) return "";
  return options.all_layers(n_layers) ? "n_gpu_layers=all"
                                      : format("n_gpu_layers=%d", *options.layers);
}

void check_cpu(const DeviceOptions& options, int n_layers) {
  const bool cpu = options.where == DeviceOptions::Where::kCpu;
  if (cpu ? options.layers.value_or(0) > 0 : options.where == DeviceOptions::Where::kCuda) {
    throw Error(ErrorCode::kUsage, format("%s and %s contradict each other: leave out one of them",
                                          cpu ? "device=cpu" : name_of(options).c_str(),
                                          layers_text(options, n_layers).c_str()));
  }
  if (const std::string useless = gpu_only(options); !useless.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: for a GPU only, found %s: the CPU takes weights as stored, and reads "
                       "prompts in its own way",
                       useless.c_str(), cpu ? "device=cpu" : "n_gpu_layers=0"));
  }
}

constexpr const char* kAllOnCpu = ": every layer runs on the CPU, with weights as stored";

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
  options.kv = device.kv;
  options.repack = !no_repack;
  if (isa == "portable") {
    options.isa = Isa::kPortable;
  } else if (isa == "avx2") {
    options.isa = Isa::kAvx2;
  } else if (isa == "avxvnni") {
    options.isa = Isa::kAvxVnni;
  } else if (isa == "avx512") {
    options.isa = Isa::kAvx512Vnni;
  } else if (isa != "auto") {
    throw Error(
        ErrorCode::kUsage,
        format("isa=%s: expected auto, portable, avx2, avxvnni or avx512", printable(isa).c_str()));
  }
  if (!isa_supported(options.isa)) {
    throw Error(
        ErrorCode::kUsage,
        format("isa=%s: this CPU lacks it; specbound doctor lists what it has", isa.c_str()));
  }
  return options;
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

KvType read_kv_type(const std::string& name) {
  for (const auto& [known, type] : kKvTypes) {
    if (name == known) return type;
  }
  throw Error(ErrorCode::kUsage,
              format("kv: expected fp16 or int8, found \"%s\"", printable(name).c_str()));
}

DeviceChoice choose_device(const DeviceOptions& options, const ModelConfig& config,
                           const Weights& weights, const std::function<GpuSurvey()>& survey) {
  using Where = DeviceOptions::Where;
  if (options.layers && *options.layers < 0) {
    throw Error(ErrorCode::kUsage, format("n_gpu_layers=%d: expected 0 to %d layers, or all",
                                          *options.layers, config.n_layers));
  }
  if (options.where == Where::kCpu || options.layers == 0) {
    check_cpu(options, config.n_layers);
    return {};
  }
  std::string asked = layers_text(options, config.n_layers);
  const bool part = options.layers && !options.all_layers(config.n_layers);
  if (part && options.prefill == PrefillPath::kCublas) {
    throw Error(ErrorCode::kUsage,
                format("prefill=cublas: for a whole model on the GPU only, found %s of %d layers",
                       asked.c_str(), config.n_layers));
  }
  const GpuSurvey found = survey();
  const bool ready = found.state == GpuSurvey::State::kReady;
  if (!ready && options.where == Where::kCuda) refuse(options, found);
  std::string why_not = found.why_not;
  if (ready) {
    why_not = why_not_on_gpu(config, weights, options.dtype);
    if (why_not.empty()) return {pick_gpu(options, found), options.layers};
    why_not = "the GPU kernels cannot run this model: " + why_not;
    if (!asked.empty() || options.where == Where::kCuda) {
      throw Error(ErrorCode::kUnsupported,
                  format("%s: %s; %s", !asked.empty() ? asked.c_str() : name_of(options).c_str(),
                         why_not.c_str(), "device=cpu runs it"));
    }
  }
  if (const std::string useless = gpu_only(options); !useless.empty()) {
    asked += (asked.empty() ? "" : " ") + useless;
  }
  if (asked.empty() && found.state == GpuSurvey::State::kNotBuilt) return {};
  return {.note = (asked.empty() ? "" : asked + ": ") + why_not + kAllOnCpu};
}

}  // namespace specbound
