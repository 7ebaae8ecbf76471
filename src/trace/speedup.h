// How much sooner a reply came than plain decoding would have brought it.
#pragma once

#include <optional>

#include "trace/counters.h"

namespace specbound {

// Tokens of a reply from which on its speedup is told: of fewer, one slow round decides.
inline constexpr int kTellingTokens = 32;

// The time that plain decoding takes for a reply's tokens over the time that they took: what `bench
// --compare` says of decoding. Plain rounds count on neither side: a few are put between the others
// to have a rate to compare with, and `bench` puts none. nullopt where it would tell nothing: of
// few tokens, where nothing was drafted, or by too few `plain_rounds` (PlainRate::kEnough), of
// which `plain_token_seconds` comes.
std::optional<double> told_speedup(const Counters& reply, double decode_seconds,
                                   double plain_token_seconds, int plain_rounds);

}  // namespace specbound
