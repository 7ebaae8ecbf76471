// A GPU through the CUDA runtime. Only builds with CUDA have it: it is no part of specbound_core.
// A device is used by the thread that opened it.
#pragma once

#include <memory>
#include <string>

#include "engine/cuda/device.h"

namespace specbound {

struct CudaCount {
  int n = 0;
  std::string why_not;      // without any: CUDA's word for it
  bool old_driver = false;  // that is why
};
CudaCount count_cuda_devices();

// Throws Error(kDevice).
std::unique_ptr<Device> open_cuda_device(int index);

// What is known of a GPU without opening it; `index` is one that CUDA counts. Throws
// Error(kDevice).
DeviceInfo cuda_device_info(int index);

}  // namespace specbound
