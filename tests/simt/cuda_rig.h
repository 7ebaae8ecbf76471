// The CUDA engine over the SIMT executor, for tests.
#pragma once

#include <memory>

#include "engine/cuda/cuda_backend.h"
#include "simt/simt_device.h"
#include "unit/engine_rig.h"

namespace specbound::test {

// `log`, where given, outlives the backend.
inline std::unique_ptr<Backend> cuda_backend(const TinyModel& model,
                                             const CudaOptions& options = {},
                                             simt::DeviceLog* log = nullptr,
                                             simt::DeviceOptions device = {}) {
  device.log = log;
  return make_cuda_backend(std::make_unique<simt::SimtDevice>(device), model.config, model.weights,
                           options);
}

}  // namespace specbound::test
