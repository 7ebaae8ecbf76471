// Tensors encoded piece by piece in several threads, the next pieces while one is written: memory
// depends on the number of threads alone, and the bytes on neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "model/gguf_writer.h"
#include "numerics/dtype.h"

namespace specbound {

struct TensorSource {
  std::string place;  // file and tensor, for messages
  uint64_t elements;
  // Floats of elements [begin, begin + count), which are whole blocks; called by many threads.
  std::function<void(uint64_t begin, uint64_t count, float* out)> load;
  // What is written instead of an encoding, where the type stays and so do the bytes: all of them.
  std::optional<std::span<const std::byte>> as_is;
};

// Of the weights: sums of squares, and of the squares of what was rounded away.
struct EncodingError {
  double squares = 0, errors = 0;
};

// Hands the tensor's bytes as `type` to `write`, in order. `arrived` hears how many elements each
// piece had; what it throws ends the work. Throws Error(kUnsupported) for weights that are not
// finite and for finite ones that the type cannot hold, Error(kLimit) without threads.
EncodingError encode_tensor(const TensorSource& source, DType type, int n_threads,
                            const GgufWriter::Write& write,
                            const std::function<void(uint64_t elements)>& arrived);

}  // namespace specbound
