#include "decode/rejection.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "error.h"

namespace specbound {
namespace {

// The draws at a place; kProposal + n is that of round n. Those of draft i are kDraft * i further.
enum Draw : uint32_t { kAcceptance, kResidual, kProposal };
constexpr uint32_t kDraft = uint32_t{1} << 28;
static_assert(kMaxProposals <= 16);  // and no reply has as many rounds

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

size_t place_of(const TokenDistribution& of, int32_t token) {
  const auto at = std::ranges::lower_bound(of.ids, token);
  SB_CHECK(at != of.ids.end() && *at == token);
  return static_cast<size_t>(at - of.ids.begin());
}

// max(0, p / p_total - q / q_total) in place of p, and its total. Laws that differ by rounding
// alone may leave nothing: then p stays.
void take_away(TokenDistribution& p, double& p_total, const TokenDistribution& q, double q_total) {
  std::vector<double> residual(p.ids.size());
  double total = 0;
  size_t j = 0;  // in q
  for (size_t i = 0; i < p.ids.size(); ++i) {
    while (j < q.ids.size() && q.ids[j] < p.ids[i]) ++j;
    const bool both = j < q.ids.size() && q.ids[j] == p.ids[i];
    const double less = both ? q.probabilities[j] / q_total : 0;
    residual[i] = std::max(p.probabilities[i] / p_total - less, 0.0);
    total += residual[i];
  }
  if (total == 0) return;
  p.probabilities = std::move(residual);
  p_total = total;
}

}  // namespace

std::vector<int32_t> draw_proposals(const TokenDistribution& q, const DrawPlace& place, int round,
                                    int n) {
  SB_CHECK(n >= 1 && n <= kMaxProposals);
  std::vector<double> left = q.probabilities;
  double total = 1;
  std::vector<int32_t> drafts;
  for (uint32_t i = 0; i < static_cast<uint32_t>(n) && total > 0; ++i) {
    const uint32_t which = kProposal + static_cast<uint32_t>(round) + kDraft * i;
    const int32_t token = invert(q.ids, left, total, uniform(place, which));
    drafts.push_back(token);
    left[place_of(q, token)] = 0;
    total = std::accumulate(left.begin(), left.end(), 0.0);
  }
  return drafts;
}

int32_t judge_proposals(TokenDistribution p, TokenDistribution q, std::span<const int32_t> drafts,
                        const DrawPlace& place) {
  double p_total = 1, q_total = 1;
  for (uint32_t n = 0; n < drafts.size(); ++n) {
    const size_t at = place_of(q, drafts[n]);
    const double chance = q.probabilities[at];
    SB_CHECK(chance > 0);
    const double u = uniform(place, kAcceptance + kDraft * n);
    if (u * chance * p_total < p.of(drafts[n]) * q_total) return drafts[n];
    take_away(p, p_total, q, q_total);
    q.probabilities[at] = 0;
    q_total = std::accumulate(q.probabilities.begin(), q.probabilities.end(), 0.0);
  }
  return invert(p.ids, p.probabilities, p_total, uniform(place, kResidual));
}

}  // namespace specbound
