#include "app/device_choice.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "app/cli.h"
#include "engine/cuda/gpu_limits.h"
#include "error.h"

namespace specbound {

namespace {

constexpr const char* kGoOn = "leave out --device to run on the CPU";

// As --device has it.
std::string name_of(const DeviceFlags& flags) {
  return flags.gpu ? format("--device cuda:%d", *flags.gpu) : "--device cuda";
}

// A flag that takes one of two or more words.
template <typename T>
CLI::Option* add_choice(CLI::App& app, const char* name, T& value,
                        const std::vector<std::pair<const char*, T>>& choices,
                        const std::string& description) {
  std::string words, list;
  for (const auto& [word, choice] : choices) {
    list += (words.empty() ? "" : word == choices.back().first ? " or " : ", ") + std::string(word);
    words += (words.empty() ? "" : "|") + std::string(word);
  }
  const auto read = [&value, name, choices, list](const std::string& given) {
    const auto found = std::find_if(choices.begin(), choices.end(),
                                    [&](const auto& choice) { return given == choice.first; });
    if (found == choices.end()) {
      throw CLI::ValidationError(
          name, format("expected %s, found \"%s\"", list.c_str(), printable(given).c_str()));
    }
    value = found->second;
  };
  return app.add_option_function<std::string>(name, read, description)->type_name(words);
}

// The flags that only a GPU has a use for, as they were given.
std::string gpu_only(const DeviceFlags& flags) {
  std::string text;
  if (flags.dtype != GpuDtype::kAsStored) {
    text = std::string("--dtype ") + gpu_dtype_name(flags.dtype);
  }
  if (flags.prefill != PrefillPath::kOwn) {
    text += std::string(text.empty() ? "" : " ") + "--prefill cublas";
  }
  return text;
}

void check_cpu(const DeviceFlags& flags, bool all_layers) {
  const bool cpu = flags.where == DeviceFlags::Where::kCpu;
  if (cpu ? all_layers : flags.where == DeviceFlags::Where::kCuda) {
    throw Error(ErrorCode::kUsage,
                format("%s and -ngl %s contradict each other: leave out one of them",
                       cpu ? "--device cpu" : name_of(flags).c_str(), cpu ? "all" : "0"));
  }
  if (const std::string useless = gpu_only(flags); !useless.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: for a GPU only, found %s: the CPU takes weights as stored, and reads "
                       "prompts in its own way",
                       useless.c_str(), cpu ? "--device cpu" : "-ngl 0"));
  }
}

// The number of a GPU of the survey.
int pick_gpu(const DeviceFlags& flags, const GpuSurvey& survey) {
  SB_CHECK(!survey.gpus.empty());
  if (!flags.gpu) return survey.gpus.front().index;
  std::string there;
  for (const DeviceInfo& gpu : survey.gpus) {
    if (gpu.index == *flags.gpu) return gpu.index;
    there += (there.empty() ? "" : ", ") + format("cuda:%d (%s)", gpu.index, gpu.name.c_str());
  }
  throw Error(ErrorCode::kUsage, format("%s: there is no such GPU; there is %s",
                                        name_of(flags).c_str(), there.c_str()));
}

// Why no GPU can be asked.
[[noreturn]] void refuse(const DeviceFlags& flags, const GpuSurvey& survey) {
  if (survey.state == GpuSurvey::State::kNotBuilt) {
    throw Error(ErrorCode::kUsage,
                format("%s: %s: build it where a CUDA toolkit is installed, or %s",
                       name_of(flags).c_str(), survey.why_not.c_str(), kGoOn));
  }
  throw Error(ErrorCode::kDevice,
              format("%s: %s; %s", name_of(flags).c_str(), survey.why_not.c_str(), kGoOn));
}

}  // namespace

bool DeviceFlags::all_layers(int n_layers) const {
  if (!layers || *layers == 0) return false;
  if (*layers > n_layers) return true;
  throw Error(
      ErrorCode::kUsage,
      format("-ngl %d: expected 0 or all (%d or more); the model has %d layers and the output, "
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

void read_device(DeviceFlags& flags, const std::string& device) {
  using Where = DeviceFlags::Where;
  flags.gpu = gpu_number(device);
  flags.where = device == "cuda" || flags.gpu ? Where::kCuda
                : device == "cpu"             ? Where::kCpu
                                              : Where::kAuto;
  if (flags.where != Where::kAuto || device == "auto") return;
  throw Error(ErrorCode::kUsage, format("expected auto, cpu, cuda or cuda:N, found \"%s\"",
                                        printable(device).c_str()));
}

void add_device_flags(CLI::App& app, DeviceFlags& flags, const std::string& group,
                      const std::string& advanced) {
  const char* none = gpu_engine().built() ? "" : "; this build has no GPU backend";
  const auto read = [&flags](const std::string& given) {
    try {
      read_device(flags, given);
    } catch (const Error& e) {
      throw CLI::ValidationError("--device", e.what());
    }
  };
  app.add_option_function<std::string>(
         "--device", read,
         format("where to run (default auto: the first GPU that can, else the CPU)%s", none))
      ->type_name("auto|cpu|cuda|cuda:N")
      ->group(group);
  const auto read_layers = [&flags](const std::string& given) {
    const std::optional<int64_t> number =
        given == "all" ? DeviceFlags::kAllLayers : parse_int(given);
    if (!number || *number < 0) {
      throw CLI::ValidationError(
          "-ngl",
          format("expected 0, all or a number of layers, found \"%s\"", printable(given).c_str()));
    }
    flags.layers = static_cast<int>(std::min<int64_t>(*number, DeviceFlags::kAllLayers));
  };
  app.add_option_function<std::string>(
         "--gpu-layers,--n-gpu-layers", read_layers,
         format("layers on the GPU: all, or 0 for none (default: as --device says)%s", none))
      ->type_name("N|all")
      ->group(group);
  add_choice<GpuDtype>(
      app, "--dtype", flags.dtype,
      {{"auto", GpuDtype::kAsStored}, {"int8", GpuDtype::kInt8}, {"fp16", GpuDtype::kFp16}},
      "weights on a GPU (default auto: quantized ones as INT8 or 4-bit, all else as fp16); the CPU "
      "takes them as stored")
      ->group(group);
  add_choice<PrefillPath>(
      app, "--prefill", flags.prefill,
      {{"own", PrefillPath::kOwn}, {"cublas", PrefillPath::kCublas}},
      "what reads prompts on a GPU (default own); cublas needs the library, and the bits of a "
      "prompt may change with its version")
      ->group(advanced);
}

DeviceChoice choose_device(const DeviceFlags& flags, const ModelConfig& config,
                           const std::function<GpuSurvey()>& survey) {
  using Where = DeviceFlags::Where;
  const bool all = flags.all_layers(config.n_layers);
  if (flags.where == Where::kCpu || flags.layers == 0) {
    check_cpu(flags, all);
    return {};
  }
  const GpuSurvey found = survey();
  const bool ready = found.state == GpuSurvey::State::kReady;
  if (!ready && flags.where == Where::kCuda) refuse(flags, found);
  std::string why_not = found.why_not;
  if (ready) {
    why_not = why_not_on_gpu(config);
    if (why_not.empty()) return {pick_gpu(flags, found), ""};
    why_not = "the GPU kernels cannot run this model: " + why_not;
    if (all || flags.where == Where::kCuda) {
      throw Error(ErrorCode::kUnsupported,
                  format("%s: %s; %s", all ? "-ngl all" : name_of(flags).c_str(), why_not.c_str(),
                         "--device cpu runs it"));
    }
  }
  std::string asked = all ? "-ngl all" : "";
  if (const std::string useless = gpu_only(flags); !useless.empty()) {
    asked += (asked.empty() ? "" : " ") + useless;
  }
  if (asked.empty() && found.state == GpuSurvey::State::kNotBuilt) return {};
  return {std::nullopt, (asked.empty() ? "" : asked + ": ") + why_not +
                            ": every layer runs on the CPU, with weights as stored"};
}

}  // namespace specbound
