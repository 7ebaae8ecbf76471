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

double overlap(const TokenDistribution& p, const TokenDistribution& q) {
  double shared = 0;
  for (size_t i = 0, j = 0; i < p.ids.size() && j < q.ids.size();) {
    if (p.ids[i] == q.ids[j]) {
      shared += std::min(p.probabilities[i++], q.probabilities[j++]);
    } else {
      ++(p.ids[i] < q.ids[j] ? i : j);
    }
  }
  return shared;
}

std::vector<int32_t> draw_proposals(const TokenDistribution& q, const DrawPlace& place, int round,
                                    int n) {
  SB_CHECK(n >= 1 && n <= kMaxProposals);
  const uint32_t first = kProposal + static_cast<uint32_t>(round);
  std::vector<int32_t> drafts = {invert(q.ids, q.probabilities, 1, uniform(place, first))};
  std::vector<double> left;
  for (uint32_t i = 1; i < static_cast<uint32_t>(n); ++i) {
    if (i == 1) left = q.probabilities;
    left[place_of(q, drafts.back())] = 0;
    const double total = std::accumulate(left.begin(), left.end(), 0.0);
    if (total == 0) break;
    drafts.push_back(invert(q.ids, left, total, uniform(place, first + kDraft * i)));
  }
  return drafts;
}

int32_t judge_proposals(const TokenDistribution& p, const TokenDistribution& q,
                        std::span<const int32_t> drafts, const DrawPlace& place) {
  SB_CHECK(q.of(drafts.front()) > 0);
  if (uniform(place, kAcceptance) * q.of(drafts.front()) < p.of(drafts.front())) {
    return drafts.front();
  }
  TokenDistribution target = p, draft = q;  // what refusals leave of them
  double target_total = 1, draft_total = 1;
  take_away(target, target_total, draft, draft_total);
  for (uint32_t i = 1; i < drafts.size(); ++i) {
    draft.probabilities[place_of(draft, drafts[i - 1])] = 0;
    draft_total = std::accumulate(draft.probabilities.begin(), draft.probabilities.end(), 0.0);
    const double chance = draft.of(drafts[i]);
    SB_CHECK(chance > 0);
    const double u = uniform(place, kAcceptance + kDraft * i);
    if (u * chance * target_total < target.of(drafts[i]) * draft_total) return drafts[i];
    take_away(target, target_total, draft, draft_total);
  }
  return invert(target.ids, target.probabilities, target_total, uniform(place, kResidual));
}

}  // namespace specbound
