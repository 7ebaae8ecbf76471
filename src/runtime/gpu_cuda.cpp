// The GPU engine of a build with CUDA. The driver is opened at run time, so that the one binary
// starts on machines without it too.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/cuda/cuda_device.h"
#include "engine/cuda/device_first_layers.h"
#include "engine/cuda/read_bandwidth.h"
#include "runtime/gpu.h"
#include "runtime/gpu_survey.h"
#include "train/device_learner.h"

namespace specbound {

namespace {

// A function of an open library; null: it has none of that name.
template <class Function>
Function* function_of(void* library, const char* name) {
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  const std::string version = driver_version_in(line);
  if (!version.empty()) return version;
  void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  auto* const start = function_of<int()>(nvml, "nvmlInit_v2");
  auto* const ask = function_of<int(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion");
  auto* const stop = function_of<int()>(nvml, "nvmlShutdown");
  if (!start || !ask || !stop || start() != 0) return "";
  char text[96] = "";
  const bool known = ask(text, sizeof text - 1) == 0;
  stop();
  return known ? driver_version_in(text) : "";
}

GpuSurvey survey() {
  // Stays open: drivers do not like to be unloaded.
  void* const driver_library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!driver_library) return no_driver();
  int driver_cuda = 0;
  auto* const get_version = function_of<int(int*)>(driver_library, "cuDriverGetVersion");
  if (!get_version || get_version(&driver_cuda) != 0) driver_cuda = 0;
  const std::string driver = driver_version();
  if (driver_cuda < kLeastCuda) return old_driver(driver_cuda, driver);

  const CudaCount count = count_cuda_devices();
  if (count.old_driver) return old_driver(driver_cuda, driver);
  if (count.n == 0) {
    return no_gpu(driver_cuda, driver, count.why_not, std::getenv("CUDA_VISIBLE_DEVICES"));
  }
  GpuSurvey found{GpuSurvey::State::kReady, "", driver_cuda, driver, {}};
  std::string silence;
  for (int i = 0; i < count.n; ++i) {
    try {
      found.gpus.push_back(cuda_device_info(i));
    } catch (const Error& e) {
      silence = e.what();
    }
  }
  if (found.gpus.empty()) return no_gpu(driver_cuda, driver, silence, nullptr);
  const DeviceInfo first = found.gpus.front();
  std::erase_if(found.gpus, [](const DeviceInfo& gpu) { return gpu.sm < kLeastSm; });
  return found.gpus.empty() ? old_gpus(driver_cuda, driver, first) : found;
}

std::unique_ptr<Device> open(int index) {
  const GpuSurvey found = survey();
  const auto same = [index](const DeviceInfo& gpu) { return gpu.index == index; };
  if (std::any_of(found.gpus.begin(), found.gpus.end(), same)) return open_cuda_device(index);
  if (found.state != GpuSurvey::State::kReady) throw Error(ErrorCode::kDevice, found.why_not);
  std::string numbers;
  for (const DeviceInfo& gpu : found.gpus) numbers += format(" cuda:%d", gpu.index);
  throw Error(ErrorCode::kUsage,
              format("expected one of%s, found cuda:%d", numbers.c_str(), index));
}

}  // namespace

const GpuEngine& gpu_engine() {
  static constexpr GpuEngine kCuda = {survey,
                                      open,
                                      make_cuda_backend,
                                      make_first_layers,
                                      make_random_cuda_backend,
                                      read_bandwidth,
                                      make_device_learner};
  return kCuda;
}

}  // namespace specbound
