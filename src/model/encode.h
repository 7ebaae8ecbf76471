// Floats as the element types that the engine runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/dtype.h"

namespace specbound {

// The bytes of `values` as F32, F16, BF16 or Q8_0 (whole blocks; SB_CHECK), to the nearest value.
// Q8_0 is ggml's: d = amax / 127 stored as half, q = round(x / d) with the unrounded d. What is not
// finite stays so: an infinity or NaN in a block becomes a scale that is none either.
std::vector<std::byte> encode_floats(std::span<const float> values, DType type);

}  // namespace specbound
