// Learning on a device: training_step.h and adamw.h with weights in FP32, factors of products in
// FP16 and their sums in FP32. Features stay on the device. The same task gives the same bits on
// one kind of device under one version of cuBLAS.
#pragma once

#include <memory>

#include "engine/cuda/device.h"
#include "train/head_learner.h"

namespace specbound {

// Throws Error(kUnsupported) where there is no cuBLAS or hidden rows are no multiple of 8,
// Error(kLimit) when the heads and a few chunks of features do not fit, Error(kDevice). `device`
// outlives it.
std::unique_ptr<HeadLearner> make_device_learner(Device& device, const LearningTask& task);

}  // namespace specbound
