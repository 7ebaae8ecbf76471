#include "numerics/log_probability.h"

#include <limits>

#include "error.h"
#include "numerics/exact_math.h"

namespace specbound {

SoftmaxScale softmax_scale(std::span<const float> z) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr size_t kLanes = 8;  // sums side by side, for the loop to vectorize
  float most = -kInfinity;
  bool finite = true;
  for (const float v : z) {
    finite &= v < kInfinity;  // NaN is not
    most = v > most ? v : most;
  }
  const double top = most;
  if (!finite || most == -kInfinity) return {top, std::numeric_limits<double>::quiet_NaN()};

  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= z.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += exact_exp(z[i + lane] - top);
  }
  for (size_t lane = 0; i < z.size(); ++i, ++lane) sums[lane] += exact_exp(z[i] - top);
  double total = 0;
  for (const double sum : sums) total += sum;
  return {top, exact_log(total)};
}

double log_probability(std::span<const float> z, int32_t token, const SoftmaxScale& scale) {
  SB_CHECK(token >= 0 && static_cast<size_t>(token) < z.size());
  return (z[token] - scale.largest) - scale.log_sum;
}

}  // namespace specbound
