// All that a reply tells of the decode loop, but times: for tests that two loops are the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "error.h"

namespace specbound::test {

inline std::string text_of(std::span<const ExitCheck> checks) {
  std::string text;
  for (const ExitCheck& c : checks) text += format(" %d:%a", c.layer, double{c.confidence});
  return text;
}

// Of a reply to `prompt`; the cache is taken as it is.
inline std::vector<std::string> loop_events(Backend& backend, Speculator* speculator,
                                            const SamplingParams& params,
                                            std::span<const int32_t> prompt, int max_tokens) {
  Session session(backend, Sampler(params));
  session.set_speculator(speculator);
  std::vector<std::string> all;
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.reply = 2;
  options.on_token = [&](const TokenEvent& e) {
    all.push_back(format("token %d %d %d %d %d %d %d%s", e.round, e.rows, e.slot, e.pos, e.token,
                         e.draft, e.exit_layer, text_of(e.checks).c_str()));
  };
  options.on_round = [&](const RoundEvent& round) {
    std::string line = format("round %s", kDraftEndNames[static_cast<int>(round.draft_end)]);
    for (const RowEvent& row : round.rows) {
      line += format(" row %d %d%s", row.token, row.exit_layer, text_of(row.checks).c_str());
    }
    for (const LayerPass& pass : round.passes) {
      line += format(" pass %d-%d %d+%d", pass.from, pass.to, pass.slot, pass.rows);
    }
    all.push_back(line);
  };
  session.generate(prompt, options);
  return all;
}

}  // namespace specbound::test
