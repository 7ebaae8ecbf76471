#include "decode/row_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "error.h"
#include "numerics/log_probability.h"

namespace specbound {

RowLogprobs row_logprobs(std::span<const float> logits, int32_t drawn, int n_top) {
  SB_CHECK(n_top >= 0);
  const SoftmaxScale scale = softmax_scale(logits);
  const auto entry = [&](int32_t id) {
    const double logprob = log_probability(logits, id, scale);
    return TokenLogprob{id, logprob > kLeastLogprob ? logprob : kLeastLogprob};  // NaN is not above
  };
  const auto logit = [&](int32_t id) {
    return std::isnan(logits[id]) ? -std::numeric_limits<float>::infinity() : logits[id];
  };

  RowLogprobs found{entry(drawn), {}};
  std::vector<int32_t> order(n_top > 0 ? logits.size() : 0);
  std::iota(order.begin(), order.end(), 0);
  const size_t n_kept = std::min(order.size(), static_cast<size_t>(n_top));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<long>(n_kept), order.end(),
      [&](int32_t a, int32_t b) { return logit(a) > logit(b) || (logit(a) == logit(b) && a < b); });
  for (size_t i = 0; i < n_kept; ++i) found.top.push_back(entry(order[i]));
  return found;
}

}  // namespace specbound
