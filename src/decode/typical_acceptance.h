// Typical acceptance (Medusa, Cai et al. 2024, arXiv:2401.10774): a draft stays where the target's
// distribution p, here behind all filters, gives it more than min(epsilon, alpha exp(-H(p))), H the
// entropy in nats. So what is not unusual stays, likeliest or not: what comes out is neither plain
// decoding's text nor of its distribution. It is here for comparisons with what was published.
#pragma once

#include "decode/sampler.h"

namespace specbound {

// As in the authors' code; their paper has alpha the root of epsilon.
inline constexpr double kTypicalEpsilon = 0.09, kTypicalAlpha = 0.3;

// What a draft's probability must exceed.
double typical_threshold(const TokenDistribution& p);

}  // namespace specbound
