// What is asked of replies: how tokens are drawn, when a reply ends, and what is written of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "decode/sampler.h"
#include "runtime/grammar_options.h"
#include "text/stop_strings.h"

namespace specbound {

// Without a seed each run draws its own and shows it.
struct SamplingOptions {
  SamplingParams params;
  std::optional<uint64_t> seed;

  // The parameters with a seed, checked. Throws Error(kUsage).
  SamplingParams resolve() const;
};

struct ReplyOptions {
  int n_predict = -1;  // -1: until the end token or the context is full
  bool ignore_eos = false;
  std::string system;
  std::string stats_json;  // empty: none
  std::string trace;       // empty: none
  StopStrings stop;
  GrammarOptions grammar;
  bool show_exits = false;
  bool quiet = false;  // nothing is told of model, drafts and speed
};

}  // namespace specbound
