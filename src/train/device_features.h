// Features and weights on their way between the host and a device. Features stay there as FP16, as
// the files have them: all that fit, from the first epoch on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/cuda/device.h"
#include "kernels/training.h"
#include "train/batches.h"

namespace specbound {

// Floats between vectors of the host and a device, and onto it as FP16.
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

// The feature chunks on a device.
class DeviceChunks {
 public:
  // Of the layers that `plan` wants, in at most `bytes`.
  DeviceChunks(Device& device, DeviceFloats& floats, const FeatureSource& features,
               const BatchPlan& plan, size_t bytes);
  // What all features take.
  static size_t bytes_of(const FeatureSource& features, const BatchPlan& plan);

  // Brings these to the device; others stay as long as there is room. Throws Error(kLimit).
  void open(std::span<const int> chunks);
  std::span<const uint8_t> follows(int chunk) const { return chunks_.at(chunk).follows; }

  int plane_of(int layer) const { return planes_[static_cast<size_t>(layer)]; }  // layer index
  int y_plane() const { return static_cast<int>(layers_.size()); }
  kernels::RowPlace place(int chunk, int row) const;
  const uint16_t* plane(int chunk, int plane) const;  // (rows, dim)

 private:
  struct Chunk {
    DeviceMemory<uint16_t> values;  // (planes, rows, dim)
    std::vector<uint8_t> follows;
  };
  void bring(int chunk, std::span<const int> wanted);

  Device& device_;
  DeviceFloats& floats_;
  const FeatureSource& features_;
  std::vector<int> layers_;  // [plane] layer index; y is behind them
  std::vector<int> planes_;  // [layer index]
  size_t limit_, used_ = 0;  // bytes
  std::map<int, Chunk> chunks_;
};

}  // namespace specbound
