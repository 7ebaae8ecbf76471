// Weights on their way to a GPU: converted to the type and repacked into the order that kernels
// want by several threads, piece by piece, while the piece before is copied.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/cpu/thread_pool.h"
#include "engine/cuda/device.h"
#include "engine/cuda/staging.h"
#include "engine/cuda/weight_layout.h"
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

  // In fragment order (fragments.h), for INT8 rows or FP16 ones: what is neither Q8_0 nor of 4 bits
  // becomes Q8_0 for the former (model/conversion.h), quantizations are dequantized for the latter.
  // Throws Error(kUnsupported) where a quantization's conversion loses weights.
  void matrix(const Matrix& source, bool int8, const MatrixParts& to);
  void bytes(const void* source, size_t bytes, std::byte* to);
  // Waits until all is there. Throws Error(kUnsupported) when FP16 numbers could not hold finite
  // weights; `help` says what runs them.
  void finish(const char* help);

 private:
  size_t convert(const Matrix& source, bool int8, int begin, int end, const MatrixParts& to);
  void arrived(size_t source_bytes);

  const UploadSize size_;
  const Progress& progress_;
  ThreadPool pool_;
  Staging staging_;
  size_t done_ = 0;       // of size_.source
  size_t too_large_ = 0;  // finite weights that became infinite
};

}  // namespace specbound
