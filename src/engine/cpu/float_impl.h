// Element-wise functions by float_formula.h, over the vector operations of a simd_*.h, which is
// included first: a part of kernels_impl.h, and its rules hold here.
#pragma once

#include "numerics/float_formula.h"

namespace specbound {
namespace {

// e^x, relative error below 2^-22. Below -87 the result is 0, so that no subnormal arises; above
// 88 it is infinite. Cody-Waite reduction by ln 2 in two parts, then a polynomial of degree 7. A
// caller whose x is never positive spares the upper end: the same bits.
template <bool kNotPositive = false>
inline V exp(V x) {
  const Mask tiny = less(x, set1(-87.0f));
  V c = x;
  if constexpr (!kNotPositive) c = min(set1(88.0f), c);
  c = max(set1(-87.0f), c);  // NaN passes: it is the second operand
  const V n = round_even(mul(c, set1(1.44269504f)));
  V r = fma(n, set1(-0.693359375f), c);
  r = fma(n, set1(2.12194440e-4f), r);
  V p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, set1(1.0f)));
  p = mul(p, pow2(n));
  if constexpr (!kNotPositive) p = select(less(set1(88.0f), x), set1(__builtin_inff()), p);
  return select(tiny, zero(), p);
}

inline V silu(V x) {
  return div(x, add(set1(1.0f), exp(sub(zero(), x))));
}

inline V gelu(V x) {
  const V p = fma(mul(set1(kGeluCube), mul(x, x)), x, x);
  return div(x, add(set1(1.0f), exp(mul(set1(kGeluSlope), p))));
}

inline V softcapped(V x, float cap) {
  const V e = exp<true>(mul(set1(-2.0f), abs(div(x, set1(cap)))));
  const V magnitude = mul(set1(cap), div(sub(set1(1.0f), e), add(set1(1.0f), e)));
  return with_sign(magnitude, x);
}

}  // namespace
}  // namespace specbound
