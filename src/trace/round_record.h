// A round as a value that outlives the call that told of it: what the desktop app gets from its
// engine thread, and what a trace file holds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "trace/event.h"

namespace specbound {

// As RowEvent.
struct RowRecord {
  int32_t token = 0;
  int exit_layer = kNoDraft;
  std::vector<ExitCheck> checks;
  std::string text;  // of its own token
  int parent = -1;
  int drafted_at = kNoDraft;
};

// As TokenEvent, with the token's text.
struct TokenRecord {
  int round = 0;
  int rows = 1;
  int slot = 0;
  int pos = 0;
  int32_t token = 0;
  int32_t draft = -1;
  int exit_layer = kNoDraft;
  bool ends_reply = false;
  std::vector<ExitCheck> checks;
  std::string text;  // its own bytes, which need not be whole characters

  bool accepted() const { return draft == token; }
};

// As RoundEvent.
struct RoundRecord {
  int round = 0;
  int pos = 0;
  DraftEnd draft_end = DraftEnd::kPlain;
  std::vector<RowRecord> rows;
  std::vector<TokenRecord> tokens;
  std::vector<LayerPass> passes;
  std::array<int64_t, kPhases> ns{};

  int drafted() const { return static_cast<int>(rows.size()) - 1; }
  int64_t total_ns() const { return std::accumulate(ns.begin(), ns.end(), int64_t{0}); }
};

// A copy of `event`; `piece` gives the bytes of a token.
inline RoundRecord record_round(const RoundEvent& event,
                                const std::function<std::string(int32_t)>& piece) {
  RoundRecord record;
  record.round = event.round;
  record.pos = event.pos;
  record.draft_end = event.draft_end;
  for (const RowEvent& row : event.rows) {
    record.rows.push_back({row.token,
                           row.exit_layer,
                           {row.checks.begin(), row.checks.end()},
                           piece(row.token),
                           row.parent,
                           row.drafted_at});
  }
  for (const TokenEvent& token : event.tokens) {
    record.tokens.push_back({token.round,
                             token.rows,
                             token.slot,
                             token.pos,
                             token.token,
                             token.draft,
                             token.exit_layer,
                             token.ends_reply,
                             {token.checks.begin(), token.checks.end()},
                             piece(token.token)});
  }
  record.passes.assign(event.passes.begin(), event.passes.end());
  record.ns = event.ns;
  return record;
}

}  // namespace specbound
