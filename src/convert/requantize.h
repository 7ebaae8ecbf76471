// A model written again with other element types. Tensors pass one by one in pieces, so memory
// depends on the number of threads alone.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "convert/quantize_plan.h"
#include "model/gguf.h"

namespace specbound {

struct RequantizeOptions {
  int n_threads = 1;
  // Bytes read of all; may throw, which ends the work and leaves no file.
  std::function<void(size_t done, size_t total)> progress;
};

struct Requantized {
  size_t weights = 0;  // of matrices that took another type
  // Of these: the root of the mean square of what was rounded away, over that of the weights.
  double relative_error = 0;
};

// Writes `gguf` to `path` as the plan has it, whole or not at all. Metadata stays as it is but for
// general.file_type, general.quantization_version, and keys that speak of how the file was laid out
// (general.alignment, split.*). Throws Error(kFile), Error(kUnsupported) for weights that are not
// finite and for finite ones that the new type cannot hold, Error(kLimit) without threads.
Requantized requantize(const Gguf& gguf, const QuantizePlan& plan, const std::string& path,
                       const RequantizeOptions& options);

}  // namespace specbound
