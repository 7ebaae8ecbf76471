// Noise: the published vectors of Philox and splitmix64, our logarithm and exponential against long
// double, the distribution of the Gumbel variate and its independence of everything but its
// coordinates.
#include "numerics/noise.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "farther.h"
#include "numerics/exact_math.h"
#include "numerics/splitmix64.h"

namespace noise_test {

using namespace specbound;

TEST_CASE("philox4x32-10: known answers of Random123") {
  using Block = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("splitmix64: the first numbers behind the seed 1234567") {
  uint64_t state = 1234567;
  for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                  4593380528125082431u, 16408922859458223821u}) {
    CHECK(splitmix64(state) == expected);
  }
}

TEST_CASE("exact_log: within 1e-15 of the logarithm everywhere, near 1 too") {
  std::mt19937_64 rng(7);
  double worst = 0;
  const auto look = [&](double x) {
    const long double want = std::log(static_cast<long double>(x));
    const double error = std::fabs(static_cast<double>((exact_log(x) - want) / want));
    worst = test::farther(worst, error);
  };
  for (int i = 0; i < 400000; ++i) {
    const double u = static_cast<double>(rng() >> 11) * 0x1p-53;
    look(std::ldexp(1 + u, static_cast<int>(rng() % 2000) - 1000));        // any magnitude
    look(((rng() >> 32) + 0.5) * 0x1p-32);                                 // what noise asks for
    look(1 - std::ldexp(u + 0x1p-20, -1 - static_cast<int>(rng() % 31)));  // just below 1
    look(1 + std::ldexp(u + 0x1p-20, -1 - static_cast<int>(rng() % 31)));  // just above 1
  }
  CHECK(worst < 1e-15);
  CHECK(exact_log(1.0) == 0.0);
}

TEST_CASE("exact_sin_cos: within 1e-15 up to 2^20 radians, in every quadrant") {
  double worst = 0;
  const auto check = [&](double x) {
    const SinCos found = exact_sin_cos(x);
    const long double sine = std::sin(static_cast<long double>(x));
    const long double cosine = std::cos(static_cast<long double>(x));
    worst = test::farther(worst, std::fabs(static_cast<double>(found.sin - sine)));
    worst = test::farther(worst, std::fabs(static_cast<double>(found.cos - cosine)));
  };
  for (int i = 0; i < 20000; ++i) check(i * 0.001);
  for (int i = 1; i < 200000; ++i) check(i * 5.2428797);
  for (double x = 1e-300; x < 1; x *= 10) check(x);
  CHECK(worst < 1e-15);
  CHECK(exact_sin_cos(0).sin == 0.0);
  CHECK(exact_sin_cos(0).cos == 1.0);
  CHECK(std::isnan(exact_sin_cos(HUGE_VAL).sin));
}

TEST_CASE("exact_exp: within 1e-15 of the exponential; 0 far below") {
  std::mt19937_64 rng(8);
  double worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const double u = static_cast<double>(rng() >> 11) * 0x1p-53;
    for (double x : {-u, -40 * u, -707 * u}) {
      const long double want = std::exp(static_cast<long double>(x));
      worst = test::farther(worst, std::fabs(static_cast<double>((exact_exp(x) - want) / want)));
    }
  }
  CHECK(worst < 1e-15);
  CHECK(exact_exp(0.0) == 1.0);
  CHECK(exact_exp(-0.0) == 1.0);
  CHECK(exact_exp(-709.0) == 0.0);
  CHECK(exact_exp(-1e300) == 0.0);
  CHECK(exact_exp(-std::numeric_limits<double>::infinity()) == 0.0);
}

TEST_CASE("gumbel_of: finite and falling over the whole range of r, below its bound") {
  CHECK(gumbel_of(0) == doctest::Approx(22.873857).epsilon(1e-6));             // -log(2^-33 + ...)
  CHECK(gumbel_of(~0u) == doctest::Approx(-3.1299943).epsilon(1e-6));          // -log(33 log 2)
  CHECK(gumbel_of(0x80000000u) == doctest::Approx(0.36651292).epsilon(1e-6));  // -log(log 2)
  float last = std::numeric_limits<float>::infinity();
  const auto look = [&](uint32_t r) {
    const float g = gumbel_of(r);
    REQUIRE(std::isfinite(g));
    REQUIRE(g <= last);
    REQUIRE(g < gumbel_bound(r));
    const long double v = (r + 0.5L) * 0x1p-32L;
    const long double want = -std::log(-std::log1p(-v));
    REQUIRE(std::fabs(g - want) <= 0x1p-24 * std::fabs(want) + 1e-14);  // the rounding to float
    last = g;
  };
  for (uint32_t r = 0; r < 5000; ++r) look(r);
  for (uint64_t r = 5000; r < 0xffff0000u; r += 40009) look(static_cast<uint32_t>(r));
  for (uint64_t r = 0xffff0000u; r <= 0xffffffffu; ++r) look(static_cast<uint32_t>(r));
}

TEST_CASE("gumbel: pinned bits, so that no build may move the noise") {
  const auto bits = [](uint64_t seed, uint32_t reply, uint32_t pos, int32_t token) {
    return std::bit_cast<uint32_t>(gumbel({seed, reply, pos}, token));
  };
  CHECK(bits(0, 0, 0, 0) == std::bit_cast<uint32_t>(gumbel_of(0x6627e8d5)));
  CHECK(bits(0, 0, 0, 3) == std::bit_cast<uint32_t>(gumbel_of(0x9b00dbd8)));
  CHECK(bits(42, 1, 17, 31999) == 0xbf6b08e2);
  CHECK(bits(0x123456789abcdef0, 3, 4095, 128255) == 0xbfb73e13);
}

TEST_CASE("gumbel: every coordinate matters") {
  std::set<float> seen;
  const DrawPlace base{1, 2, 3};
  seen.insert(gumbel(base, 4));
  seen.insert(gumbel(base, 5));
  seen.insert(gumbel(base, 8));
  seen.insert(gumbel({1, 2, 4}, 4));
  seen.insert(gumbel({1, 3, 3}, 4));
  seen.insert(gumbel({2, 2, 3}, 4));
  seen.insert(gumbel({1 | (uint64_t{1} << 32), 2, 3}, 4));
  seen.insert(gumbel({3, 2, 1}, 4));  // no mixing up of seed, reply and position
  CHECK(seen.size() == 8);
}

TEST_CASE("gumbel: mean and variance of the distribution") {
  double sum = 0, squares = 0;
  const int n = 400000;
  for (int i = 0; i < n; ++i) {
    const double g = gumbel({9, 0, static_cast<uint32_t>(i / 1000)}, i % 1000);
    sum += g;
    squares += g * g;
  }
  const double mean = sum / n;
  // Euler's constant and pi^2 / 6; the standard errors are 0.002 and 0.006.
  CHECK(std::fabs(mean - 0.5772157) < 0.01);
  CHECK(std::fabs(squares / n - mean * mean - 1.6449341) < 0.03);
}

}  // namespace noise_test
