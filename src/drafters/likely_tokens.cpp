#include "drafters/likely_tokens.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace specbound {
namespace {

// How many of the tokens, by logit and highest first, the filters leave, at least one.
size_t kept_by_filters(std::span<const LikelyToken> by_logit, const SamplingParams& p) {
  const auto weight = [&](const LikelyToken& one) {
    return std::exp(one.share - by_logit[0].share);
  };
  const auto most = p.top_k > 0 ? static_cast<size_t>(p.top_k) : by_logit.size();
  double all = 0, before = 0;
  for (const LikelyToken& one : by_logit) all += weight(one);
  size_t kept = 0;
  for (; kept < std::min(most, by_logit.size()); ++kept) {
    const double w = weight(by_logit[kept]);
    if (kept > 0 && (before >= p.top_p * all || w < p.min_p)) break;
    before += w;
  }
  return kept;
}

}  // namespace

void likeliest_tokens(std::span<const float> z, std::span<const int32_t> ids,
                      const SamplingParams& sampling, const DrawPlace& place, int n,
                      std::vector<LikelyToken>& out) {
  out.clear();
  // Those found so far, best first: hardly a token gets past the last of them.
  float least = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < z.size(); ++i) {
    if (!(z[i] > least)) continue;
    const auto after = std::ranges::find_if(out, [&](const auto& one) { return z[i] > one.share; });
    out.insert(after, {static_cast<int32_t>(i), z[i]});
    if (std::ssize(out) > kScoredTokens) out.pop_back();
    if (std::ssize(out) == kScoredTokens) least = z[static_cast<size_t>(out.back().token)];
  }
  if (out.empty()) return;
  if (std::isinf(out.front().share)) return out.clear();
  if (sampling.temperature > 0) out.resize(kept_by_filters(out, sampling));
  for (LikelyToken& one : out) {
    if (!ids.empty()) one.token = ids[static_cast<size_t>(one.token)];
    if (sampling.temperature == 0) continue;
    one.share = one.share / sampling.temperature + gumbel(place, one.token);
  }
  std::ranges::stable_sort(out, std::greater(), &LikelyToken::share);
  const double highest = out.front().share;
  double sum = 0;
  for (LikelyToken& one : out) sum += one.share = std::exp(one.share - highest);
  for (LikelyToken& one : out) one.share /= sum;
  out.resize(std::min(out.size(), static_cast<size_t>(n)));
}

}  // namespace specbound
