// Which model is run, and how: the same for every front end. Where it runs is what is asked for,
// held against what the machine has: asked for by name, a GPU that cannot be had is an error; left
// to itself, the program says why it takes the CPU. docs/architecture.md 8.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "engine/cpu/cpu_backend.h"
#include "engine/kv_type.h"
#include "library/tile_cache.h"
#include "model/config.h"
#include "runtime/gpu.h"

namespace specbound {

struct DeviceOptions {
  enum class Where {
    kAuto,  // the first GPU where there is one that can run the model, else the CPU
    kCpu,
    kCuda,  // a GPU, or an error that says why not
  };
  static constexpr int kAllLayers = std::numeric_limits<int>::max();

  Where where = Where::kAuto;
  std::optional<int> gpu;                   // N of cuda:N; none: the first
  std::optional<int> layers;                // on the GPU; kAllLayers for "all"; none: what fits
  GpuDtype dtype = GpuDtype::kAsStored;     // on a GPU
  PrefillPath prefill = PrefillPath::kOwn;  // on a GPU
  KvType kv = KvType::kFp16;                // on any device

  // Whether `layers` asks for the whole model on the GPU: "all", or more than its `n_layers` layers
  // (the output counts as one). False where nothing is asked.
  bool all_layers(int n_layers) const { return layers && *layers > n_layers; }
};
// "cuda:12" is 12; nullopt for all else.
std::optional<int> gpu_number(const std::string& device);
// `device`, which is auto, cpu, cuda or cuda:N, into `options`. Throws Error(kUsage) for
// anything else.
void read_device(DeviceOptions& options, const std::string& device);
// "fp16" or "int8". Throws Error(kUsage) for anything else.
KvType read_kv_type(const std::string& name);

struct ModelOptions {
  std::string model;               // empty: the bundled demo model
  int n_ctx = 0;                   // 0: as trained
  int n_threads = 0;               // 0: one per physical core
  int n_sequences = 1;             // texts side by side at most (CpuOptions, CudaOptions)
  bool one_text_on_gpu = false;    // no more than one there: its memory is for something else
  std::string chat_template;       // a built-in one; empty: as the file says
  std::string chat_template_file;  // or one of Jinja text
  DeviceOptions device;
  std::string isa = "auto";
  bool no_repack = false;
  KeepTiles keep_tiles = KeepTiles::kOff;  // what writes files unasked is a front end's choice
  bool write_tiles = true;  // false: takes what is kept, and writes nothing beside a measurement

  // Throws Error(kUsage) for what this CPU lacks.
  CpuOptions cpu_options() const;
};

struct DeviceChoice {
  std::optional<int> gpu = {};  // its number; none: the CPU
  // How many of the first layers it runs, the CPU the rest: more than there are for all of it; none
  // asked for: as many as fit.
  std::optional<int> layers = {};
  // Why the CPU runs it or a part of it, one line to show; empty: nothing to tell.
  std::string note = {};
};
// `survey` is asked only where a GPU is possible: that takes a driver's time. Throws Error(kUsage)
// for options that contradict each other and for a GPU that is not there, Error(kDevice) where
// there is none that can be used, Error(kUnsupported) for a model that the kernels cannot run.
DeviceChoice choose_device(const DeviceOptions& options, const ModelConfig& config,
                           const Weights& weights, const std::function<GpuSurvey()>& survey);

}  // namespace specbound
