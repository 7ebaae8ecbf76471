// The classic rule of speculative sampling: a draft x, drawn from the drafter's distribution q,
// stays with chance min(1, p(x) / q(x)) under the target's distribution p; else a token of
// norm(max(0, p - q)) takes its place. What comes out follows p exactly, but is not the text that
// plain decoding gives for the same seed. Leviathan et al. 2023 (arXiv:2211.17192), Chen et al.
// 2023 (arXiv:2302.01318).
//
// Of several drafts of a place, drawn from q without replacement, each is judged where those before
// it were refused: under what p leaves then, against what q leaves without them. What comes out
// follows p again, and one of several drafts stays more often than one alone (recursive rejection
// sampling: Yang et al. 2024, arXiv:2401.06706; Jeon et al. 2024, arXiv:2402.14160).
//
// Independent draws, none of them the sampler's noise: two of a place and one for each further
// draft, and one for each draft of every round that proposes there. A draft that was drawn must be
// judged unless one before it was wrong: leaving some out by what they are would bias what is left.
// What was proposed behind a wrong draft may show in how long its round took, and so in whether the
// next one drafts at all: with the same noise once more those that are then proposed would be
// biased too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/sampler.h"
#include "numerics/noise.h"

namespace specbound {

inline constexpr int kMaxProposals = 8;  // of a place

// The chance that a draft from q stays: the sum over tokens of min(p, q), which is 1 - TV(p, q)
// (Leviathan et al. 2023, theorem 3.5). No draft, however it is drawn, is the target more often;
// drawn with the target's noise it is so at least (1 - TV) / (1 + TV) of the time (Daliri et al.
// 2024, arXiv:2408.07978).
double overlap(const TokenDistribution& p, const TokenDistribution& q);

// The drafts that round number `round` of the reply makes at `place`, from the distribution q: up
// to n tokens, 1..kMaxProposals, fewer where q has no more.
std::vector<int32_t> draw_proposals(const TokenDistribution& q, const DrawPlace& place, int round,
                                    int n);

// The token at `place` under the distribution p, where `drafts` are all that came from
// draw_proposals(q, place, ...), in their order: the first that is accepted, and another one where
// none is.
int32_t judge_proposals(const TokenDistribution& p, const TokenDistribution& q,
                        std::span<const int32_t> drafts, const DrawPlace& place);

}  // namespace specbound
