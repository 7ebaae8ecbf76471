// Rounds for tests of the live panel: what a decode loop with some drafts would tell.
#pragma once

#include <fcntl.h>

#include <string>
#include <vector>

#include "trace/recorder.h"
#include "trace/round_record.h"
#include "unit/chain_rows.h"

namespace specbound::gui {

// Rows are drafted at `exits`; the draft in place `wrong` is not the token (-1: all are right).
// Each row was looked at in every layer up to its exit, the last one up to layer 2.
inline RoundRecord make_round(int number, int pos, const std::vector<int>& exits, int wrong = -1) {
  RoundRecord round;
  round.round = number;
  round.pos = pos;
  const int drafts = static_cast<int>(exits.size());
  round.draft_end = drafts > 0 ? DraftEnd::kDifficult : DraftEnd::kPlain;
  for (int i = 0; i <= drafts; ++i) {
    RowRecord row;
    row.token = 100 + pos + i;
    row.text = i == wrong + 1 && wrong >= 0 ? " wrong" : " w" + std::to_string(pos + i);
    if (i == wrong + 1 && wrong >= 0) row.token = 7;
    if (i < drafts) row.exit_layer = exits[i];
    const int deepest = i < drafts ? exits[i] : drafts > 0 ? 2 : -1;
    for (int layer = i < drafts && exits[i] == 0 ? 0 : 1; layer <= deepest; ++layer) {
      row.checks.push_back({layer, i < drafts && layer == deepest ? 0.9f : 0.3f});
    }
    round.rows.push_back(row);
  }
  specbound::test::make_chain(round.rows);
  const int tokens = wrong >= 0 ? wrong + 1 : drafts + 1;
  for (int i = 0; i < tokens; ++i) {
    TokenRecord token;
    token.round = number;
    token.rows = drafts + 1;
    token.slot = i;
    token.pos = pos + i + 1;
    token.token = 100 + pos + i + 1;
    token.text = " w" + std::to_string(pos + i + 1);
    if (i < drafts) {
      token.draft = round.rows[i + 1].token;
      token.exit_layer = exits[i];
    }
    token.checks = round.rows[i].checks;
    round.tokens.push_back(token);
  }
  round.ns = {4'000'000, 1'000'000, 3'000'000, 1'500'000, 500'000};
  return round;
}

inline TraceReply make_settings(float tau = 0.55f, float alpha = 0.2f) {
  TraceReply reply;
  reply.prompt_tokens = 10;
  reply.speculator = "specbound";
  reply.settings = TraceSettings{8, 10, alpha, tau, {1, 2, 3, 4}, true, true, true};
  return reply;
}

// A trace file of one reply, as --trace writes it, of a model of 6 layers.
inline void write_trace(const std::string& path, const std::vector<RoundRecord>& rounds) {
  Recorder recorder(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  TraceHeader header;
  header.n_layers = 6;
  header.vocab_size = 1000;
  header.n_ctx = 100;
  recorder.header(header, [](int32_t token) { return " t" + std::to_string(token); });
  recorder.begin_reply(make_settings());
  for (const RoundRecord& round : rounds) {
    std::vector<RowEvent> rows;
    for (const RowRecord& row : round.rows) rows.push_back({row.token, row.exit_layer, row.checks});
    specbound::test::make_chain(rows);
    std::vector<TokenEvent> tokens;
    for (const TokenRecord& t : round.tokens) {
      tokens.push_back(
          {t.round, t.rows, t.slot, t.pos, t.token, t.draft, t.exit_layer, t.ends_reply, t.checks});
    }
    recorder.round({round.round, round.pos, round.draft_end, rows, tokens, {}, round.ns});
  }
  TraceEnd end;
  end.stop = "end";
  recorder.end_reply(end);
}

}  // namespace specbound::gui
