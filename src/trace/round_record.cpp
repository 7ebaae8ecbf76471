#include "trace/round_record.h"

namespace specbound {

RoundRecord record_round(const RoundEvent& event,
                         const std::function<std::string(int32_t)>& piece) {
  RoundRecord record;
  record.round = event.round;
  record.pos = event.pos;
  record.draft_end = event.draft_end;
  for (const RowEvent& row : event.rows) {
    record.rows.push_back(
        {row.token, row.exit_layer, {row.checks.begin(), row.checks.end()}, piece(row.token)});
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
