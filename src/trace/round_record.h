// A round as a value that outlives the call that told of it: what the desktop app gets from its
// engine thread, and what a trace file holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trace/event.h"

namespace specbound {

struct RowRecord : RowOf<std::vector<ExitCheck>> {
  std::string text;  // of its own token
};

struct TokenRecord : TokenOf<std::vector<ExitCheck>> {
  std::string text;  // its own bytes, which need not be whole characters
};

using RoundRecord =
    RoundOf<std::vector<RowRecord>, std::vector<TokenRecord>, std::vector<LayerPass>>;

// A copy of `event`; `piece` gives the bytes of a token.
inline RoundRecord record_round(const RoundEvent& event,
                                const std::function<std::string(int32_t)>& piece) {
  const auto copy = [](std::span<const ExitCheck> checks) {
    return std::vector<ExitCheck>(checks.begin(), checks.end());
  };
  RoundRecord record{event.round, event.pos, event.draft_end, {},
                     {},          {},        event.ns,        event.decode_seconds};
  for (const RowEvent& r : event.rows) {
    record.rows.push_back(
        {{r.token, r.exit_layer, copy(r.checks), r.parent, r.drafted_at}, piece(r.token)});
  }
  for (const TokenEvent& t : event.tokens) {
    record.tokens.push_back({{t.round, t.rows, t.slot, t.pos, t.token, t.draft, t.exit_layer,
                              t.ends_reply, copy(t.checks)},
                             piece(t.token)});
  }
  record.passes.assign(event.passes.begin(), event.passes.end());
  return record;
}

}  // namespace specbound
