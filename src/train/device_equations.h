// The normal equations of least_squares.h, summed on a device: products of up to 1024 rows by
// cuBLAS, what comes of them added in double.
#pragma once

#include <span>
#include <vector>

#include "engine/cuda/cublas.h"
#include "train/device_features.h"
#include "train/head_learner.h"

namespace specbound {

class DeviceEquations {
 public:
  DeviceEquations(Device& device, Cublas& cublas, DeviceChunks& chunks, int dim,
                  std::span<const EquationsOf> wanted);
  // Bytes on the device.
  static size_t bytes_needed(int dim, std::span<const EquationsOf> wanted);

  void add(int chunk, int most);  // of an open one, as HeadLearner::add_equations
  std::vector<LeastSquares> take(DeviceFloats& floats);

 private:
  struct Sums {
    EquationsOf of;
    int n_in;
    DeviceMemory<double> gram, cross;
  };
  void add_rows(const Sums& sums, int n, const uint16_t* u, const uint16_t* y);
  void add_chained(const Sums& sums, int chunk, int rows);

  Device& device_;
  Cublas& cublas_;
  DeviceChunks& chunks_;
  int dim_;
  std::vector<Sums> sums_;
  DeviceMemory<float> part_;      // (widest n_in, widest n_in)
  DeviceMemory<uint16_t> u_, y_;  // rows of chained heads
  DeviceMemory<kernels::RowPlace> places_;
  PinnedMemory<kernels::RowPlace> pinned_;
};

}  // namespace specbound
