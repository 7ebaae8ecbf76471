// A round as it was, out of the loop's storage.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/event.h"

namespace specbound::test {

struct SeenRound {
  explicit SeenRound(const RoundEvent& round)
      : draft_end(round.draft_end),
        passes(round.passes.begin(), round.passes.end()),
        rows(static_cast<int>(round.rows.size())),
        emitted(static_cast<int>(round.tokens.size())) {
    for (const RowEvent& row : round.rows) {
      tokens.push_back(row.token);
      exits.push_back(row.exit_layer);
      checks.push_back(static_cast<int>(row.checks.size()));
    }
  }

  DraftEnd draft_end;
  std::vector<LayerPass> passes;
  int rows, emitted;
  std::vector<int32_t> tokens;     // of each row
  std::vector<int> exits, checks;  // where it left, and how many looks it had
};

}  // namespace specbound::test
