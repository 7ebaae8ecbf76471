// The median of measurements, the mean of the middle two of an even number; 0 of none.
#pragma once

#include <algorithm>
#include <vector>

namespace specbound {

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

}  // namespace specbound
