#include "decode/row_logprobs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

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

  // Few of a row are better than the worst that is kept; of equal ones the first stays ahead.
  std::vector<int32_t> best;
  const size_t most = std::min(logits.size(), static_cast<size_t>(n_top));
  for (int32_t id = 0; most > 0 && id < std::ssize(logits); ++id) {
    if (best.size() == most && !(logits[id] > logit(best.back()))) continue;  // NaN is not above
    best.insert(std::ranges::upper_bound(best, logit(id), std::greater{}, logit), id);
    if (best.size() > most) best.pop_back();
  }
  RowLogprobs found{entry(drawn), {}};
  for (const int32_t id : best) found.top.push_back(entry(id));
  return found;
}

}  // namespace specbound
