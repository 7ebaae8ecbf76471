// The power of two by which a row of activations is scaled into the range of FP16 (RowsF16 in
// layouts.h).
#pragma once

#include "float_formula.cuh"
#include "row_norm.cuh"

namespace specbound::kernels {

inline constexpr int kTopExponent = 13;  // of the largest magnitude, scaled

struct RowScale {
  float scale;
  float inverse;  // 0: the row holds zeros
};

// `largest`: of the row's magnitude_bits.
SPECBOUND_DEVICE RowScale row_scale(uint32_t largest) {
  if (largest == 0) return {1.0f, 0.0f};
  const float amax = float_of(largest);
  if (!(amax < infinity())) return {amax, 0.0f};
  const int exponent = static_cast<int>(largest >> 23) - kTopExponent;
  const uint32_t biased = static_cast<uint32_t>(exponent > 1 ? exponent : 1);
  return {float_of(biased << 23), float_of((254u - biased) << 23)};
}

// The largest of the block's magnitudes, for every thread.
SPECBOUND_DEVICE uint32_t block_largest(uint32_t largest, uint32_t* of_warps) {
  largest = max_bits_of_32(largest);
  if (lane_index() == 0) of_warps[warp_index()] = largest;
  __syncthreads();
  for (int warp = 0; warp < kRowThreads / kWarp; ++warp) {
    largest = largest > of_warps[warp] ? largest : of_warps[warp];
  }
  return largest;
}

}  // namespace specbound::kernels
