// Quantization of a block of 32 activations, as int8_formula.h has it: what its largest magnitude
// decides, and one value.
#pragma once

#include "intrinsics.cuh"
#include "layouts.h"

namespace specbound::kernels {

struct QuantScale {
  float inverse;  // 127 / amax; 0: every q is 0
  float dx;
};

SPECBOUND_DEVICE uint32_t magnitude_bits(float x) {  // ordered as magnitudes are, NaN above all
  return bits_of(x) & 0x7fffffffu;
}

// `largest`: of the block's magnitude_bits.
SPECBOUND_DEVICE QuantScale quant_scale(uint32_t largest) {
  const float amax = float_of(largest);
  if (!(amax < infinity())) return {0.0f, not_a_number()};
  if (amax < kQuantFloor) return {0.0f, 0.0f};
  return {127.0f / amax, amax / 127.0f};
}

SPECBOUND_DEVICE int quantized(float x, const QuantScale& scale) {
  return scale.inverse > 0.0f ? static_cast<int>(round_even(x * scale.inverse)) : 0;
}

// Where block `block` of row `row` lies in RowsI8, in blocks; all panels have 8 rows.
SPECBOUND_DEVICE size_t row_block(int n_blocks, int row, int block) {
  const size_t panel = static_cast<size_t>(row / kPanelRows);
  return (panel * n_blocks + block) * kPanelRows + row % kPanelRows;
}

}  // namespace specbound::kernels
