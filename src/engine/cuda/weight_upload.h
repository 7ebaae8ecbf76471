// Weights on their way to a GPU: converted to the type and repacked into the order that kernels
// want by several threads, piece by piece, while the piece before is copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "engine/cpu/thread_pool.h"
#include "engine/cuda/device.h"
#include "engine/cuda/staging.h"
#include "model/weights.h"

namespace specbound {

struct UploadSize {
  size_t source = 0;         // bytes of the file
  size_t widest_tile = 0;    // bytes on the device
  size_t staging_bytes = 0;  // of each of two buffers, at most
};

class WeightUpload {
 public:
  using Progress = std::function<void(size_t done, size_t total)>;

  // `progress` may be null, and may throw.
  WeightUpload(Device& device, const UploadSize& size, const Progress& progress);

  // In fragment order (fragments.h): values, and the scales of INT8. What is not Q8_0 is quantized
  // for INT8, and Q8_0 dequantized for FP16.
  void matrix(const Matrix& source, bool int8, std::byte* values, std::byte* scales);
  void bytes(const void* source, size_t bytes, std::byte* to);
  // Waits until all is there. Throws Error(kUnsupported) when FP16 could not hold finite weights;
  // `help` says what runs them.
  void finish(const char* help);

 private:
  void convert(const Matrix& source, bool int8, int begin, int end, std::byte* values,
               std::byte* scales);
  void arrived(size_t source_bytes);

  const UploadSize size_;
  const Progress& progress_;
  ThreadPool pool_;
  Staging staging_;
  size_t done_ = 0;                    // of size_.source
  std::atomic<size_t> too_large_ = 0;  // finite weights that became infinite
};

}  // namespace specbound
