// What of a GPU this program was linked with. A build without CUDA has gpu_none.cpp, one with CUDA
// gpu_cuda.cpp, and the tests' program runs the same engine on the SIMT executor
// (tests/simt/gpu_simt.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device.h"
#include "engine/first_layers.h"

namespace specbound {

class HeadLearner;
struct LearningTask;

struct GpuSurvey {
  enum class State {
    kNotBuilt,   // this program has no GPU engine
    kNoDriver,   // libcuda.so.1 cannot be opened
    kOldDriver,  // it serves a CUDA version before 13
    kNoGpu,      // it serves no GPU, or none that is new enough
    kReady,
  };
  State state = State::kNotBuilt;
  std::string why_not;           // unless kReady: one line, with what to do
  int driver_cuda = 0;           // what the driver serves, 1000 major + 10 minor; 0: unknown
  std::string driver;            // its own version, "580.65.06"; empty: unknown
  std::vector<DeviceInfo> gpus;  // those that can run the kernels
};

struct GpuEngine {
  GpuSurvey (*survey)();  // never throws
  // Throws Error(kDevice), Error(kUsage) for a number that no GPU has.
  std::unique_ptr<Device> (*open)(int index);
  std::unique_ptr<Backend> (*backend)(std::unique_ptr<Device>, const ModelConfig&, const Weights&,
                                      const CudaOptions&);
  std::unique_ptr<FirstLayers> (*first_layers)(std::unique_ptr<Device>, const ModelConfig&,
                                               const Weights&, const CudaOptions&, int n_layers);
  std::unique_ptr<Backend> (*random_backend)(std::unique_ptr<Device>, const ModelConfig&,
                                             const CudaOptions&);
  // Bytes a second that the device reads from its memory, over about `seconds`; nullopt where too
  // little of it is free to tell.
  std::optional<double> (*read_bandwidth)(Device&, double seconds);
  // The training of exit heads on a device (train/device_learner.h).
  std::unique_ptr<HeadLearner> (*learner)(Device&, const LearningTask&);

  // Whether there is an engine at all, known without asking the machine.
  bool built() const { return open != nullptr; }
};

// The same table for the whole life of the program. Only survey() and built() may be called unless
// it is kReady.
const GpuEngine& gpu_engine();

}  // namespace specbound
