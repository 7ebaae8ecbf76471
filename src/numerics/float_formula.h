// Element-wise functions as written formulas (docs/architecture.md 4): each operation is one FP32
// rounding, exp is that of the engines' kernels, so whoever computes them, the bits are these.
//
//   silu(x)  x / (1 + exp(0 - x))
//   gelu(x)  the tanh approximation, x / (1 + exp(-2 u)) with u = sqrt(2/pi) (x + 0.044715 x^3):
//            p = fma(kGeluCube * (x * x), x, x); x / (1 + exp(kGeluSlope * p))
//   softcap(x, cap)  cap * tanh(x / cap): e = exp(-2 * |x / cap|);
//            cap * ((1 - e) / (1 + e)), with the sign of x; a NaN stays one
#pragma once

namespace specbound {

inline constexpr float kGeluCube = 0.044715f;
inline constexpr float kGeluSlope = -1.5957691216f;  // -2 sqrt(2/pi)

}  // namespace specbound
