// Where a model runs: what the command line asks for, held against what the machine has. Asked for
// by name, a GPU that cannot be had is an error; left to itself, the program says why it takes the
// CPU. DESIGN 8.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "app/gpu.h"
#include "model/config.h"

namespace CLI {
class App;
}  // namespace CLI

namespace specbound {

struct DeviceFlags {
  enum class Where {
    kAuto,  // the first GPU where there is one that can run the model, else the CPU
    kCpu,
    kCuda,  // a GPU, or an error that says why not
  };
  static constexpr int kAllLayers = std::numeric_limits<int>::max();

  Where where = Where::kAuto;
  std::optional<int> gpu;                   // N of --device cuda:N; none: the first
  std::optional<int> layers;                // -ngl, kAllLayers for "all"
  GpuDtype dtype = GpuDtype::kAsStored;     // on a GPU
  PrefillPath prefill = PrefillPath::kOwn;  // on a GPU

  // Whether -ngl asks for the whole model on the GPU: "all", or more than its `n_layers` layers
  // (the output counts as one). False for 0 and without -ngl. Throws Error(kUsage) for a part.
  bool all_layers(int n_layers) const;
};
// Of --device: "cuda:12" is 12; nullopt for all else.
std::optional<int> gpu_number(const std::string& device);
// `device` as --device has it, auto, cpu, cuda or cuda:N, into `flags`. Throws Error(kUsage) for
// anything else.
void read_device(DeviceFlags& flags, const std::string& device);
// --device -ngl --dtype in `group`, --prefill in `advanced`.
void add_device_flags(CLI::App& app, DeviceFlags& flags, const std::string& group,
                      const std::string& advanced);

struct DeviceChoice {
  std::optional<int> gpu;  // its number; none: the CPU
  std::string note;        // why it is the CPU, one line to show; empty: nothing to tell
};
// `survey` is asked only where a GPU is possible: that takes a driver's time. Throws Error(kUsage)
// for flags that contradict each other and for a GPU that is not there, Error(kDevice) where there
// is none that can be used, Error(kUnsupported) for a model that the kernels cannot run.
DeviceChoice choose_device(const DeviceFlags& flags, const ModelConfig& config,
                           const std::function<GpuSurvey()>& survey);

}  // namespace specbound
