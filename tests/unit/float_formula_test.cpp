// Element-wise kernels against the formulas of numerics/float_formula.h written out for one number,
// bit for bit on every instruction set, and against double precision.
#include "numerics/float_formula.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine_rig.h"

namespace float_formula_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The engines' exp: Cody-Waite reduction by ln 2 in two parts, a polynomial of degree 7.
float plain_exp(float x) {
  if (std::isnan(x)) return x;
  if (x < -87.0f) return 0;
  if (x > 88.0f) return kInf;
  const float n = std::nearbyint(x * 1.44269504f);
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  for (float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = std::fma(p, r, c);
  }
  p = std::fma(p, r * r, r + 1.0f);
  return p * std::ldexp(1.0f, static_cast<int>(n));
}

float plain_silu(float x) {
  return x / (1.0f + plain_exp(0.0f - x));
}

float plain_gelu(float x) {
  const float p = std::fma(kGeluCube * (x * x), x, x);
  return x / (1.0f + plain_exp(kGeluSlope * p));
}

float plain_softcap(float x, float cap) {
  const float e = plain_exp(-2.0f * std::fabs(x / cap));
  return std::copysign(cap * ((1.0f - e) / (1.0f + e)), x);
}

std::vector<float> many_numbers() {
  std::vector<float> x;
  for (float v : {0.0f, 1e-45f, 1e-40f, 1e-30f, 1e-7f, 0.5f, 5.0f, 9.19f, 20.0f, 87.0f, 87.5f,
                  88.0f, 88.5f, 100.0f, 1e10f, 1e20f, 1e30f, 3e38f, kInf}) {
    x.push_back(v);
    x.push_back(-v);
  }
  for (int i = -3000; i <= 3000; ++i) x.push_back(0.01f * static_cast<float>(i));
  TinyRandom random(9);
  for (int i = 0; i < 5000; ++i) x.push_back(30 * random.normal());
  return x;
}

// NaN as NaN, all else to the bit.
bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0;
}

template <class F>
void check_same(const std::vector<float>& y, const std::vector<float>& x, F formula) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (same(y[i], formula(x[i]))) continue;
    CAPTURE(x[i]);
    CAPTURE(y[i]);
    CHECK(same(y[i], formula(x[i])));
  }
}

}  // namespace

TEST_CASE("float formulas: SiLU, GELU and soft caps as written, on every instruction set") {
  std::vector<float> x = many_numbers();
  x.push_back(std::nanf(""));
  const std::vector<float> ones(x.size(), 1.0f);
  const int n = static_cast<int>(x.size());
  for (Isa isa : supported_isas()) {
    CAPTURE(isa_name(isa));
    const Kernels& kernels = kernels_for(isa);
    std::vector<float> y = x;
    kernels.silu_mul(y.data(), ones.data(), n);
    check_same(y, x, plain_silu);
    y = x;
    kernels.gelu_mul(y.data(), ones.data(), n);
    check_same(y, x, plain_gelu);
    for (float cap : {1e-40f, 0.1f, 2.0f, 30.0f, 50.0f, 1e30f}) {
      CAPTURE(cap);
      y = x;
      kernels.softcap(y.data(), cap, n);
      check_same(y, x, [&](float v) { return plain_softcap(v, cap); });
    }
  }
}

TEST_CASE("float formulas: an element's bits do not depend on where it lies") {
  const std::vector<float> x = many_numbers();
  TinyRandom random(4);
  std::vector<float> up(64);
  for (float& v : up) v = random.normal();
  for (Isa isa : supported_isas()) {
    const Kernels& kernels = kernels_for(isa);
    for (int n = 1; n <= 50; ++n) {
      const size_t first = random.next() % (x.size() - 50);
      const std::vector<float> before(x.begin() + first, x.begin() + first + n);
      std::vector<float> gelu = before, capped = before;
      gelu.push_back(-7);
      capped.push_back(-7);
      kernels.gelu_mul(gelu.data(), up.data(), n);
      kernels.softcap(capped.data(), 3.0f, n);
      for (int i = 0; i < n; ++i) {
        CHECK(same(gelu[i], plain_gelu(before[i]) * up[i]));
        CHECK(same(capped[i], plain_softcap(before[i], 3.0f)));
      }
      CHECK(gelu[n] == -7);  // nothing past the last
      CHECK(capped[n] == -7);
    }
  }
}

TEST_CASE("float formulas: near double precision") {
  for (float x : many_numbers()) {
    CAPTURE(x);
    const double v = x;
    if (std::fabs(v) < 1e10) {
      const double inner = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
      const double gelu = v / (1 + std::exp(-2 * inner));  // 0.5 v (1 + tanh(inner))
      // Where the result is small beside x, its exponent magnifies the rounding of u.
      CHECK(std::fabs(plain_gelu(x) - gelu) <=
            2e-6 * std::fabs(gelu) + 1e-6 * std::exp(-v * v / 2));
    } else if (std::isfinite(x)) {
      CHECK(plain_gelu(x) == (x > 0 ? x : 0));
    }
    for (float cap : {2.0f, 30.0f, 50.0f}) {
      CHECK(std::fabs(plain_softcap(x, cap) - cap * std::tanh(v / cap)) <= 3e-7 * cap);
    }
  }
  CHECK(plain_softcap(kInf, 30) == 30);
  CHECK(plain_softcap(-kInf, 30) == -30);
  CHECK(std::signbit(plain_softcap(-0.0f, 30)));
  CHECK(std::isnan(plain_softcap(std::nanf(""), 30)));
}

}  // namespace float_formula_test
