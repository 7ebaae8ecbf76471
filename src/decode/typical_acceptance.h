// Typical acceptance (Medusa, Cai et al. 2024, arXiv:2401.10774): a draft stays where the target's
// distribution p, here behind all filters, gives it more than min(epsilon, alpha exp(-H(p))), H the
// entropy in nats. So what is not unusual stays, likeliest or not: what comes out is neither plain
// decoding's text nor of its distribution. It is here for comparisons with what was published.
#pragma once

#include <array>
#include <functional>
#include <span>

#include "decode/sampler.h"
#include "engine/row_paths.h"
#include "trace/event.h"

namespace specbound {

// As in the authors' code; their paper has alpha the root of epsilon.
inline constexpr double kTypicalEpsilon = 0.09, kTypicalAlpha = 0.3;

// What a draft's probability must exceed.
double typical_threshold(const TokenDistribution& p);

// Of a round's tree, row 0 its root: behind each row the draft that stays, -1 where none does. Of
// the paths whose drafts all stay it is the longest that does, of equals the likeliest.
// `target_after` tells p behind a row; it holds until the next call, and is asked of rows that
// stay and have drafts behind them.
void judge_typical(std::span<const RowEvent> rows,
                   const std::function<const TokenDistribution&(int slot)>& target_after,
                   std::array<int, kMaxRows>& stays);

}  // namespace specbound
