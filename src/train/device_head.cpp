#include "train/device_head.h"

#include <cmath>

#include "kernels/training.h"

namespace specbound {

DeviceParameter::DeviceParameter(Device& device, size_t n, int n_in)
    : n_in(n_in), value(device, n), mean(device, n), square(device, n), half(device, n) {}

DeviceHead::DeviceHead(Device& device, LearningHead& head)
    : map(device, head.map.value.size(), head.n_in()), head_(&head) {
  if (head.n_inner == 0) return;
  inner = DeviceParameter(device, head.inner.value.size(), head.n_in());
  outer = DeviceParameter(device, head.outer.value.size(), head.n_inner);
}

std::vector<DeviceParameter*> DeviceHead::parameters() {
  if (head_->n_inner == 0) return {&map};
  return {&map, &inner, &outer};
}

size_t DeviceHead::n_parts() const {
  return static_cast<size_t>(kernels::square_parts_of(map.value.size()) +
                             kernels::square_parts_of(inner.value.size()) +
                             kernels::square_parts_of(outer.value.size()));
}

void DeviceHead::upload(DeviceFloats& floats) {
  const std::vector<Parameter*> from = head_->parameters();
  const std::vector<DeviceParameter*> to = parameters();
  for (size_t i = 0; i < to.size(); ++i) {
    floats.upload(from[i]->value, to[i]->value.data());
    floats.upload(from[i]->mean, to[i]->mean.data());
    floats.upload(from[i]->square, to[i]->square.data());
    const int n_rows = static_cast<int>(from[i]->value.size() / static_cast<size_t>(to[i]->n_in));
    floats.halve(to[i]->value.data(), n_rows, to[i]->n_in, to[i]->half.data());
  }
}

void DeviceHead::download(DeviceFloats& floats) {
  const std::vector<Parameter*> to = head_->parameters();
  const std::vector<DeviceParameter*> from = parameters();
  for (size_t i = 0; i < to.size(); ++i) {
    floats.download<float>(from[i]->value.data(), to[i]->value);
    floats.download<float>(from[i]->mean.data(), to[i]->mean);
    floats.download<float>(from[i]->square.data(), to[i]->square);
  }
}

void DeviceHead::step(Device& device, const float* gradient, double* parts, const AdamW& adam,
                      int64_t step, float rate) {
  const kernels::Stream stream = device.stream();
  const std::vector<DeviceParameter*> all = parameters();
  int n_parts = 0;
  const float* of_parameter = gradient;
  for (const DeviceParameter* p : all) {
    kernels::square_parts({of_parameter, p->value.size(), parts + n_parts}, stream);
    n_parts += kernels::square_parts_of(p->value.size());
    of_parameter += p->value.size();
  }
  kernels::AdamWStep s{};
  s.parts = parts;
  s.n_parts = n_parts;
  s.max_norm = adam.max_norm;
  s.rate = rate;
  s.keep = 1 - rate * adam.weight_decay;
  s.beta1 = adam.beta1;
  s.beta2 = adam.beta2;
  s.epsilon = adam.epsilon;
  const double count = static_cast<double>(step);
  s.mean_scale = static_cast<float>(1 / (1 - std::pow(double{adam.beta1}, count)));
  s.square_scale = static_cast<float>(1 / (1 - std::pow(double{adam.beta2}, count)));
  s.gradient = gradient;
  for (const DeviceParameter* p : all) {
    s.value = p->value.data();
    s.mean = p->mean.data();
    s.square = p->square.data();
    s.half = p->half.data();
    s.n = p->value.size();
    kernels::adamw_step(s, stream);
    s.gradient += s.n;
  }
}

}  // namespace specbound
