// Floats between vectors of the host and a device, and onto it as FP16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/cuda/device.h"
#include "engine/cuda/staging.h"

namespace specbound {

class DeviceFloats {
 public:
  explicit DeviceFloats(Device& device);

  void upload(std::span<const float> from, float* to);
  // Rows `factor` * from (n_rows, n), as FP16.
  void upload_halves(std::span<const float> from, int n_rows, int n, float factor, uint16_t* to);
  // to = from (n_rows, n) as FP16, both on the device.
  void halve(const float* from, int n_rows, int n, uint16_t* to);
  // Waits.
  template <class T>
  void download(const T* from, std::span<T> to) {
    download_bytes(from, to.data(), to.size_bytes());
  }

 private:
  void download_bytes(const void* from, void* to, size_t bytes);

  Device& device_;
  DeviceMemory<float> floats_;          // on their way to FP16
  PinnedMemory<std::byte> downloaded_;  // a piece
  Staging staging_;                     // the first to go: it waits for what is under way
};

}  // namespace specbound
