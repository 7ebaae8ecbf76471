#include "decode/rejection.h"

#include <algorithm>
#include <span>
#include <vector>

#include "error.h"

namespace specbound {
namespace {

// The draws at a place; kProposal + n is that of round n.
enum Draw : uint32_t { kAcceptance, kResidual, kProposal };

// The token where the sum of the weights, none negative, passes u times their total. What rounding
// leaves over goes to the last that has a chance.
int32_t invert(std::span<const int32_t> ids, std::span<const double> weights, double total,
               double u) {
  double left = u * total;
  int32_t last = ids.front();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (weights[i] == 0) continue;
    last = ids[i];
    left -= weights[i];
    if (left < 0) break;
  }
  return last;
}

}  // namespace

int32_t draw_proposal(const TokenDistribution& q, const DrawPlace& place, int round) {
  const uint32_t which = kProposal + static_cast<uint32_t>(round);
  return invert(q.ids, q.probabilities, 1, uniform(place, which));
}

int32_t judge_proposal(const TokenDistribution& p, const TokenDistribution& q, int32_t draft,
                       const DrawPlace& place) {
  SB_CHECK(q.of(draft) > 0);
  if (uniform(place, kAcceptance) * q.of(draft) < p.of(draft)) return draft;
  std::vector<double> residual(p.ids.size());
  double total = 0;
  size_t j = 0;  // in q
  for (size_t i = 0; i < p.ids.size(); ++i) {
    while (j < q.ids.size() && q.ids[j] < p.ids[i]) ++j;
    const bool both = j < q.ids.size() && q.ids[j] == p.ids[i];
    residual[i] = std::max(p.probabilities[i] - (both ? q.probabilities[j] : 0), 0.0);
    total += residual[i];
  }
  const double u = uniform(place, kResidual);
  // Laws that differ by rounding alone may leave nothing.
  if (total == 0) return invert(p.ids, p.probabilities, 1, u);
  return invert(p.ids, residual, total, u);
}

}  // namespace specbound
