// The INT8 sum as a written formula (docs/architecture.md 4), shared by every engine: whoever
// computes the integers, the bits of y = W x are these.
//
//   activations  per row and 32-block: amax = max |x|, dx = amax / 127, q = rne(x * (127 / amax));
//                amax < kQuantFloor: dx = 0, q = 0; amax infinite or NaN: dx = NaN, q = 0
//   weights      blocks of 32, value = dw * w (Q8_0; Q4_0 with w = q - 8, Q5_0 with q - 16), or
//                dw * w - mw (Q4_K and Q5_K with w = q, dw = d * scale and mw = dmin * min, both
//                exact in FP32; Q4_1 and Q5_1 with w = q, dw = d and mw = -m); Q6_K: dw = d,
//                w = scale * (q - 32), a scale for each 16
//   chunks       the K/32 blocks are cut into S = k_chunks(K) contiguous chunks; chunk c begins at
//                block k_chunk_begin(K, c)
//   in a chunk   blocks ascend, from 0: acc = fma(float(isum), dw * dx, acc), isum the exact int32
//                dot product of a block; where there are mins, behind it
//                acc = fma(float(-xsum) * dx, mw, acc), xsum the exact sum of the block's q
//   y            ((0 + acc_0) + acc_1) + ...
//
// Q6_K: isum = s0 * i0 + s1 * i1 with the products i0 and i1 of each 16 and their scales. |q - 32|
// is at most 32, that of an activation 127, |s| 128: |i| <= 16 * 32 * 127 = 65024, and s * i, s1 *
// (i0 + i1) and isum are at most 2 * 128 * 65024 = 16646144 < 2^24: floats without rounding.
#pragma once

namespace specbound {

inline constexpr int kInt8Formula = 2;  // which one this is, for what is kept of its bits
inline constexpr int kQuantBlock = 32;
inline constexpr float kQuantFloor = 1e-30f;

// S: a function of the weight's shape alone, so that a GPU block of S warps can split K.
[[gnu::always_inline]] constexpr int k_chunks(int k) {
  const int blocks = k / kQuantBlock;
  return blocks >= 128 ? 8 : blocks >= 64 ? 4 : blocks >= 32 ? 2 : 1;
}

[[gnu::always_inline]] constexpr int k_chunk_begin(int k, int chunk) {
  return static_cast<int>(static_cast<long long>(k / kQuantBlock) * chunk / k_chunks(k));
}

}  // namespace specbound
