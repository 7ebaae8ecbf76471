#include "trace/speedup.h"

#include <cmath>

#include "trace/plain_rate.h"

namespace specbound {

std::optional<double> told_speedup(const Counters& reply, double decode_seconds,
                                   double plain_token_seconds, int plain_rounds) {
  if (reply.drafted_tokens == 0 || reply.decoded_tokens < kTellingTokens) return std::nullopt;
  if (plain_rounds < PlainRate::kEnough || !(plain_token_seconds > 0)) return std::nullopt;
  // A plain round gives one token.
  const double plainly = plain_token_seconds * (reply.decoded_tokens - reply.plain_rounds);
  const double seconds = decode_seconds - 1e-9 * static_cast<double>(reply.plain_ns);
  const double speedup = plainly / seconds;
  if (!(seconds > 0) || !std::isnormal(speedup)) return std::nullopt;
  return speedup;
}

}  // namespace specbound
