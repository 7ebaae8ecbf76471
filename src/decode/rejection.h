// The classic rule of speculative sampling: a draft x, drawn from the drafter's distribution q,
// stays with chance min(1, p(x) / q(x)) under the target's distribution p; else a token of
// norm(max(0, p - q)) takes its place. What comes out follows p exactly, but is not the text that
// plain decoding gives for the same seed. Leviathan et al. 2023 (arXiv:2211.17192), Chen et al.
// 2023 (arXiv:2302.01318).
//
// Independent draws, none of them the sampler's noise: two of a place, and one of every round that
// proposes there. A draft that was drawn must be judged unless one before it was wrong: leaving
// some out by what they are would bias what is left. What was proposed behind a wrong draft may
// show in how long its round took, and so in whether the next one drafts at all: with the same
// noise once more those that are then proposed would be biased too.
#pragma once

#include <cstdint>

#include "decode/sampler.h"
#include "numerics/noise.h"

namespace specbound {

// How a draft and its target belong together.
enum class Acceptance {
  kCoupled,  // both drawn with the same noise: the text of plain decoding (docs/architecture.md 5)
  kRejection,  // by the rule above: its distribution
};

// The draft that round number `round` of the reply makes at `place`, from the distribution q.
int32_t draw_proposal(const TokenDistribution& q, const DrawPlace& place, int round);

// The token at `place` under the distribution p, where `draft` came from draw_proposal(q, place,
// ...). It is the draft where that is accepted, and another token elsewhere.
int32_t judge_proposal(const TokenDistribution& p, const TokenDistribution& q, int32_t draft,
                       const DrawPlace& place);

}  // namespace specbound
