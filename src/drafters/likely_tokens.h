// The likeliest tokens by a draft's logits, under the noise that the target will be drawn with:
// draft and target then agree far more often than independent draws would, and what a token lost by
// says how likely it is to win after all (docs/architecture.md 5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/sampler.h"
#include "numerics/noise.h"

namespace specbound {

struct LikelyToken {
  int32_t token = 0;
  double share = 0;
};

inline constexpr int kScoredTokens = 16;  // by logit: noise seldom lifts one from below

// Of the kScoredTokens highest logits z those of the highest z / temperature + G at `place`
// (temperature 0: of the highest z), up to n, highest first, of equals the lowest place in z;
// `share` is the softmax of that among all that were scored. What top-k, top-p and min-p of
// `sampling` leave out is not scored, as far as these few tokens tell. `ids`: the tokens of z;
// empty: from 0 on. NaN counts as -inf, which nothing is likely by; none where one is infinite.
void likeliest_tokens(std::span<const float> z, std::span<const int32_t> ids,
                      const SamplingParams& sampling, const DrawPlace& place, int n,
                      std::vector<LikelyToken>& out);

}  // namespace specbound
