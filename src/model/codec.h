// Elements as files store them: their values, and floats as the types that models are quantized
// to. The bits are those of the `gguf` package and of ggml.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "numerics/dtype.h"

namespace specbound {

// out (n) = the elements at `data`, whole blocks (SB_CHECK) of any type that runs_as() something,
// at any address. FP32, each operation rounded as the package does: the same bits, NaN payloads
// aside.
void dequantize(const std::byte* data, DType type, size_t n, float* out);

// The bytes of `values` as F32, F16, BF16, Q8_0, Q4_0 or Q4_K (whole blocks; SB_CHECK).
//   floats  to the nearest value
//   Q8_0    ggml's: d = amax / 127 stored as half, q = round(x / d) with the unrounded d
//   Q4_0    ggml's: d = x / -8 stored as half, x the first of largest size, q = floor(x / d + 8.5)
//           with the unrounded d
//   Q4_K    a weighted least squares fit: encode_q4_k.cpp
// What is not finite stays so: an infinity or NaN in a block becomes a scale that is none either,
// and so do values too large for the FP16 scale.
std::vector<std::byte> encode_floats(std::span<const float> values, DType type);
// The same to where there is room for it.
void encode_floats(std::span<const float> values, DType type, std::byte* out);

// One block of 256 values.
BlockQ4_K encode_q4_k(const float* x);

}  // namespace specbound
