#include "drafters/guesser.h"

#include <vector>

#include "drafters/likely_tokens.h"

namespace specbound {

void Guesser::Guess::add_others(std::span<const float> z, std::span<const int32_t> ids,
                                float temperature, const DrawPlace& place) {
  const SamplingParams unfiltered{.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0};
  std::vector<LikelyToken> likely;
  likeliest_tokens(z, ids, unfiltered, place, kScoredTokens, likely);
  std::erase_if(likely, [this](const LikelyToken& one) { return one.token == token; });
  double total = 0;
  for (const LikelyToken& one : likely) total += one.share;
  others = 0;
  if (total <= 0) return;
  for (const LikelyToken& one : likely) {
    if (others == kMostOthers) break;
    other[others++] = {one.token, static_cast<float>((1 - confidence) * one.share / total)};
  }
}

}  // namespace specbound
