// What a survey of GPUs says when there is none to use: one line, with what to do. Parts of it are
// put after "every layer runs on the CPU: ".
#pragma once

#include <string>

#include "runtime/gpu.h"

namespace specbound {

inline constexpr int kLeastCuda = 13000;  // that a driver must serve: CUDA 13.0
inline constexpr int kLeastSm = 75;

GpuSurvey no_driver();
GpuSurvey old_driver(int driver_cuda, const std::string& driver);
// No GPU that CUDA would show; `reason` is its own word for it. `visible`: CUDA_VISIBLE_DEVICES,
// or null.
GpuSurvey no_gpu(int driver_cuda, const std::string& driver, const std::string& reason,
                 const char* visible);
// GPUs, but too old ones.
GpuSurvey old_gpus(int driver_cuda, const std::string& driver, const DeviceInfo& one);

// "580.65.06" in the first line of /proc/driver/nvidia/version; empty: none found.
std::string driver_version_in(const std::string& line);

}  // namespace specbound
