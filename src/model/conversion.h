// Quantizations that the engines do not multiply by as they are: at load they become Q8_0, the bits
// of which codec.h defines, on the CPU and on GPUs alike. So do float matrices where they are to
// run as INT8.
#pragma once

#include <cstddef>
#include <string>

#include "model/weights.h"
#include "numerics/dtype.h"

namespace specbound {

// Row `row` of `matrix` (of any type that dequantize() reads, rows of whole Q8_0 blocks) as n_in/32
// blocks. Returns how many finite weights were lost: those so large that the scale of their block,
// an FP16 number, became infinite. Weights that are not finite in the file are not counted; they
// make a scale that is not finite either. Blocks of weights all below 3.8e-6 become zeros, as
// ggml's Q8_0 has it: rows of tokens that no training text held look like that in honest files.
size_t convert_to_int8(const Matrix& matrix, int row, BlockQ8_0* out);

// Throws Error(kUnsupported) naming the type where `lost`, the sum of what conversions of such
// matrices returned, is above 0.
void refuse_lost_weights(DType type, size_t lost);

// What load says of matrices that are converted: which types, and the bytes that they take before
// and after; empty where there are none.
std::string conversion_note(const Weights& weights);

}  // namespace specbound
