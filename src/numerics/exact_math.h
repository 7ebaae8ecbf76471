// Our own logarithm, exponential, sine and cosine in double precision: the same bits on every
// machine, compiler and libm, because they are nothing but IEEE additions, multiplications and one
// division in a written order (no fused operations: without FMA hardware those are slow calls).
// Relative error below 1e-15, near log(1) too. Loops over the first two vectorize: there are no
// tables and no branches on data. constexpr: nvcc then compiles them for kernels as they are.
#pragma once

#include <bit>
#include <cstdint>

namespace specbound {

inline constexpr double kLn2High = 0x1.62e42fefa38p-1;   // 42 bits: k * kLn2High is exact
inline constexpr double kLn2Low = 0x1.ef35793c7673p-45;  // ln 2 - kLn2High

// log(x) for finite, normal x > 0.
constexpr double exact_log(double x) {
  // x = 2^k * m with m in [sqrt(1/2), sqrt(2)), by integer arithmetic on the bits.
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr uint64_t kOne = 0x3ff0000000000000;
  const uint64_t shifted = std::bit_cast<uint64_t>(x) - kSqrtHalf + kOne;
  const uint64_t biased = shifted >> 52;  // k + 1023
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffff) + kSqrtHalf);
  // An integer below 2^52 under the exponent of 2^52 is 2^52 + integer.
  const double k = std::bit_cast<double>(biased | 0x4330000000000000) - (0x1p52 + 1023.0);

  // log m = 2 atanh(s) = 2s (1 + s^2/3 + s^4/5 + ...), |s| <= 0.1716: eleven terms reach 2e-19.
  const double f = m - 1.0;  // exact
  const double s = f / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23;
  p = p * z + 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  // 2s = f - f s holds exactly, and f is exact: the rounding of s enters only through the small
  // terms.
  const double log_m = f - s * (f - 2.0 * z * p);
  return k * kLn2High + (log_m + k * kLn2Low);
}

// exp(x) for x <= 0 (0 below -708, where results would be denormal). NaN is not allowed.
constexpr double exact_exp(double x) {
  // x = k ln 2 + r, |r| <= 0.347: adding and taking away 1.5 * 2^52 rounds to an integer.
  const double clamped = x < -708.0 ? -708.0 : x;
  const double rounder = 0x1.8p52;
  const double shifted = clamped * 0x1.71547652b82fep+0 + rounder;
  const double k = shifted - rounder;
  const double r = (clamped - k * kLn2High) - k * kLn2Low;
  double p = 1.0 / 6227020800.0;  // 1/13!
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * (r * r) + r;  // exp(r) - 1
  // The low bits of `shifted` hold k; adding it to the exponent field multiplies by 2^k.
  const uint64_t bits = std::bit_cast<uint64_t>(1.0 + p) + (std::bit_cast<uint64_t>(shifted) << 52);
  const double value = std::bit_cast<double>(bits);
  return x < -708.0 ? 0.0 : value;
}

struct SinCos {
  double sin, cos;
};

// sin(x) and cos(x) for 0 <= x < 2^24, absolute error below 1e-15 up to 2^20.
constexpr SinCos exact_sin_cos(double x) {
  // x = k pi/2 + r, |r| <= pi/4. pi/2 in three parts, the first two of 33 bits: k times them is
  // exact for k < 2^20.
  const double rounder = 0x1.8p52;
  const double shifted = x * 0x1.45f306dc9c883p-1 + rounder;
  const double k = shifted - rounder;
  const double r = ((x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
  const double z = r * r;
  // Taylor: the first terms left out are below 1e-18.
  double s = 1.0 / 355687428096000.0;  // 1/17!
  s = s * z - 1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  const double sine = r + r * z * s;
  double c = 1.0 / 20922789888000.0;  // 1/16!
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  const double cosine = (1.0 - 0.5 * z) + z * z * c;
  switch (std::bit_cast<uint64_t>(shifted) & 3) {  // the low bits hold k
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace specbound
