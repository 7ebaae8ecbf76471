// `specbound verify`: every prompt decoded plainly and with speculation, side by side, and compared
// to the last token, or to the last bit of every row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "drafters/forced_head.h"
#include "runtime/grammar_options.h"
#include "runtime/model_options.h"
#include "runtime/prompt.h"
#include "runtime/reply_options.h"
#include "runtime/speculation_options.h"

namespace specbound {

struct VerifyOptions {
  ModelOptions model;
  SamplingOptions sampling;     // but for temperature and seed
  SpeculationOptions drafting;  // its `speculator`: one of speculators(), or forced
  PromptOptions prompt;
  GrammarOptions grammar;
  int n_predict = 64;
  std::vector<float> temperatures = {0.0f, 0.7f, 1.0f};
  std::vector<uint64_t> seeds = {1, 2};
  ForcedRates rates;
  bool bits = false, ignore_eos = false;
  std::string json;  // a file; empty: none

  bool forced() const { return drafting.speculator == "forced"; }
};

// Prompts x temperatures x seeds, to the first difference; the report goes to stdout. False where
// something differs, or where nobody reads the report. Throws Error for what cannot be compared,
// Interrupted on Ctrl-C.
bool verify(const VerifyOptions& options, std::vector<std::string> prompts);

}  // namespace specbound
