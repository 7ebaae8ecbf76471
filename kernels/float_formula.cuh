// Float arithmetic in the order in which the CPU kernels have it (engine/cpu/float_impl.h): sums
// run in virtual lanes and end in one fixed tree, exp is one polynomial. Same bits on both.
#pragma once

#include "intrinsics.cuh"
#include "numerics/activation.h"
#include "numerics/float_formula.h"

namespace specbound::kernels {

SPECBOUND_DEVICE bool finite(float x) {
  return x < infinity() && x > -infinity();
}

// e^x, relative error below 2^-22; 0 below -87, infinite above 88. Cody-Waite reduction by ln 2 in
// two parts, a polynomial of degree 7.
SPECBOUND_DEVICE float exp_formula(float x) {
  float c = x > 88.0f ? 88.0f : x;
  c = c < -87.0f ? -87.0f : c;  // NaN passes
  const float n = round_even(c * 1.44269504f);
  float r = fused(n, -0.693359375f, c);
  r = fused(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fused(p, r, 1.3981999507e-3f);
  p = fused(p, r, 8.3334519073e-3f);
  p = fused(p, r, 4.1665795894e-2f);
  p = fused(p, r, 1.6666665459e-1f);
  p = fused(p, r, 5.0000001201e-1f);
  p = fused(p, r * r, r + 1.0f);
  const int exponent = n == n ? static_cast<int>(n) : 0;  // of NaN any: the product is NaN
  p = p * float_of(static_cast<uint32_t>(exponent + 127) << 23);
  if (x > 88.0f) p = infinity();
  return x < -87.0f ? 0.0f : p;
}

// silu or gelu (numerics/float_formula.h): they differ in what the exponent is.
SPECBOUND_DEVICE float activated(Activation activation, float x) {
  float exponent = 0.0f - x;
  if (activation == Activation::kGelu) {
    exponent = kGeluSlope * fused(kGeluCube * (x * x), x, x);
  }
  return x / (1.0f + exp_formula(exponent));
}
SPECBOUND_DEVICE float silu(float x) {
  return activated(Activation::kSilu, x);
}

// cap * tanh(x / cap), cap > 0 (numerics/float_formula.h).
SPECBOUND_DEVICE float softcap(float x, float cap) {
  const float scaled = x / cap;
  const float e = exp_formula(-2.0f * float_of(bits_of(scaled) & 0x7fffffffu));
  const float magnitude = cap * ((1.0f - e) / (1.0f + e));
  return float_of(bits_of(magnitude) | (bits_of(x) & 0x80000000u));
}

// The CPU's tree over 16 virtual lanes, in both halves of a warp: every lane of a half returns the
// sum over lanes 0..15 of that half. (a + b) has the bits of (b + a).
SPECBOUND_DEVICE float sum_of_16(float x) {
  for (int step = 8; step >= 1; step /= 2) x = x + shuffle_xor(x, step);
  return x;
}

// Of 32 virtual lanes, one a lane of the warp: lanes i and i + 16 first, then the tree.
SPECBOUND_DEVICE float sum_of_32(float x) {
  return sum_of_16(x + shuffle_xor(x, 16));
}

// The largest bit pattern: of non-negative floats, those of NaN and infinity above all.
SPECBOUND_DEVICE uint32_t max_bits_of_32(uint32_t x) {
  for (int step = 16; step >= 1; step /= 2) {
    const uint32_t other = shuffle_xor(x, step);
    x = x > other ? x : other;
  }
  return x;
}

}  // namespace specbound::kernels
