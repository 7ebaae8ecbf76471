// Values of stored elements, as the `gguf` package and ggml define them.
#pragma once

#include <cstddef>

#include "model/dtype.h"

namespace specbound {

// out (n) = the elements at `data`, whole blocks (SB_CHECK) of any type that runs_as() something,
// at any address. FP32, each operation rounded as the package does: the same bits, NaN payloads
// aside.
void dequantize(const std::byte* data, DType type, size_t n, float* out);

}  // namespace specbound
