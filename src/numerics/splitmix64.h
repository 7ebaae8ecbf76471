// splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", as
// Vigna wrote it down): a counter that grows by a constant, and its mix of 64 bits.
#pragma once

#include <cstdint>

namespace specbound {

inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// A bijection whose every output bit depends on every input bit.
constexpr uint64_t splitmix64_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The next number of the sequence behind `state`.
constexpr uint64_t splitmix64(uint64_t& state) {
  return splitmix64_mix(state += kSplitMixStep);
}

}  // namespace specbound
