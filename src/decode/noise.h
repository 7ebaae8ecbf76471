// Counter-based noise: the Gumbel variate of one token at one place of one reply, from nothing but
// its coordinates. DESIGN 5; Philox4x32-10 of Salmon et al. 2011, "Parallel random numbers: as easy
// as 1, 2, 3".
//
//   key     = seed, low and high half
//   counter = { reply, pos, token / 4, 0 };  token % 4 picks one of the block's four words
#pragma once

#include <array>
#include <cstdint>

namespace specbound {

// One Philox4x32-10 block.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Where a token is drawn: which conversation seed, which reply, which position of the text.
struct DrawPlace {
  uint64_t seed = 0;
  uint32_t reply = 0;
  uint32_t pos = 0;
};

// The random words of tokens 4 * block .. 4 * block + 3.
std::array<uint32_t, 4> noise_block(const DrawPlace& place, uint32_t block);

// G = -log(-log1p(-v)), v = (r + 0.5) * 2^-32; finite for every r, falling as r grows.
float gumbel_of(uint32_t r);
// An upper bound of gumbel_of(r) that costs no logarithm: most tokens of a large vocabulary cannot
// win whatever the rest of r says.
double gumbel_bound(uint32_t r);

// gumbel_of the token's own word.
float gumbel(const DrawPlace& place, int32_t token);

}  // namespace specbound
