// The weights of a head on a device while it learns, with the optimizer's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cuda/cublas.h"
#include "train/device_features.h"
#include "train/training_step.h"

namespace specbound {

struct DeviceParameter {
  int n_in = 0;  // of a row
  DeviceMemory<float> value, mean, square;
  DeviceMemory<uint16_t> half;  // value, for products

  DeviceParameter() = default;
  DeviceParameter(Device& device, size_t n, int n_in);
  HalfMatrix matrix() const { return {half.data(), n_in}; }
};

class DeviceHead {
 public:
  // Room for `head`, which outlives it.
  DeviceHead(Device& device, LearningHead& head);

  const LearningHead& learning() const { return *head_; }
  // Of all parameters.
  size_t n_values() const { return map.value.size() + inner.value.size() + outer.value.size(); }
  size_t n_parts() const;  // kernels::square_parts_of each of them

  void upload(DeviceFloats& floats);    // the head's weights
  void download(DeviceFloats& floats);  // into the head; waits
  // One step of `adam` by the gradients of all parameters, in the order of
  // LearningHead::parameters(); parts is memory for n_parts().
  void step(Device& device, const float* gradient, double* parts, const AdamW& adam, int64_t step,
            float rate);

  DeviceParameter map, inner, outer;
  int plane = 0;  // of its x

 private:
  std::vector<DeviceParameter*> parameters();

  LearningHead* head_;
};

}  // namespace specbound
