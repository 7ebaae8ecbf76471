// Counter-based noise: the Gumbel variate of one token at one place of one reply, from nothing but
// its coordinates. docs/architecture.md 5; Philox4x32-10 of Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3".
//
//   key     = seed, low and high half
//   counter = { reply, pos, token / 4, 0 };  token % 4 picks one of the block's four words
//
// Draws that must be independent of those have another counter: { reply, pos, which, 1 }.
//
// constexpr: nvcc then compiles it for kernels as it is.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "numerics/exact_math.h"

namespace specbound {

// One Philox4x32-10 block.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
  constexpr uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * c0;
    const uint64_t product1 = kMultiplier1 * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

// Where a token is drawn: which conversation seed, which reply, which position of the text.
struct DrawPlace {
  uint64_t seed = 0;
  uint32_t reply = 0;
  uint32_t pos = 0;
};

// The random words of tokens 4 * block .. 4 * block + 3.
constexpr std::array<uint32_t, 4> noise_block(const DrawPlace& place, uint32_t block) {
  return philox4x32({place.reply, place.pos, block, 0},
                    {static_cast<uint32_t>(place.seed), static_cast<uint32_t>(place.seed >> 32)});
}

// G = -log(-log1p(-v)), v = (r + 0.5) * 2^-32; finite for every r, falling as r grows.
constexpr float gumbel_of(uint32_t r) {
  // v has 33 fractional bits, so 1 - v is exact and log1p(-v) is a plain logarithm.
  const double v = (r + 0.5) * 0x1p-32;
  return static_cast<float>(-exact_log(-exact_log(1.0 - v)));
}

// An upper bound of gumbel_of(r) that costs no logarithm: most tokens of a large vocabulary cannot
// win whatever the rest of r says.
constexpr double gumbel_bound(uint32_t r) {
  // -log(1 - v) >= v, so G <= -log v, and v > 2^-(leading zeros + 1). The margin covers rounding to
  // float.
  return (std::countl_zero(r) + 1) * 0.6931471805599454 + 1e-4;
}

// gumbel_of the token's own word.
constexpr float gumbel(const DrawPlace& place, int32_t token) {
  const uint32_t id = static_cast<uint32_t>(token);
  return gumbel_of(noise_block(place, id / 4)[id % 4]);
}

// Uniform in [0, 1), 53 bits: draw number `which` at its place, independent of the others and of
// the Gumbel variates there.
constexpr double uniform(const DrawPlace& place, uint32_t which) {
  const std::array<uint32_t, 4> words =
      philox4x32({place.reply, place.pos, which, 1},
                 {static_cast<uint32_t>(place.seed), static_cast<uint32_t>(place.seed >> 32)});
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

}  // namespace specbound
