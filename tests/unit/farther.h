// How far numbers are from what they should be, where one that is none is the farthest.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace specbound::test {

inline double farther(double worst, double distance) {
  return distance <= HUGE_VAL ? std::max(worst, distance) : HUGE_VAL;
}

// The largest difference of two rows, relative to the largest value of `expected`.
inline double relative_difference(std::span<const float> found, std::span<const float> expected) {
  double largest = 0, apart = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    apart = farther(apart, std::abs(static_cast<double>(found[i]) - expected[i]));
  }
  return largest > 0 ? apart / largest : HUGE_VAL;
}

}  // namespace specbound::test
