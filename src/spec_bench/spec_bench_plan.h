// What `spec-bench` is asked for: which questions, what drafts, how tokens are picked.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model_options.h"
#include "runtime/reply_options.h"
#include "runtime/speculation_options.h"

namespace specbound {

// How replies are written, by every side.
struct SpecBenchReplies {
  int n_predict = 1024;  // tokens at most
  int repeats = 1;       // times each one is written; the fastest counts
};

struct SpecBenchOptions {
  ModelOptions model;
  SamplingOptions sampling;  // greedy, seed 1 where not given
  SpeculationOptions drafting;
  std::string questions;  // a file
  std::string out;        // a folder; empty: answers are kept nowhere
  std::string json;
  SpecBenchReplies replies;
  int limit = 0;        // 0: all
  std::string compare;  // names; empty: what `drafting` says alone
  // More drafters by name: what they are told over `drafting`.
  std::vector<std::pair<std::string, SpeculationOptions>> settings;
  bool fresh = false, sampling_table = false;
};

// One that answers every question.
struct SpecBenchDrafter {
  std::string name;                           // also of its answer file: letters, digits and -._
  std::optional<SpeculationOptions> options;  // none: plain decoding
  bool needed = true;  // else left out, with a line that says why, where it cannot be had
};

// Plain decoding first, then what `options` name, in that order. Throws Error(kUsage).
std::vector<SpecBenchDrafter> spec_bench_drafters(const SpecBenchOptions& options);

// A way to pick tokens.
struct SpecBenchStrategy {
  std::string name;    // of a row of Table 2
  std::string prefix;  // of its answer files; empty where there is one way, and of greedy
  SamplingParams sampling;
};
// As the sampling options say, or with sampling_table the four of the paper's Table 2. Throws
// Error(kUsage).
std::vector<SpecBenchStrategy> spec_bench_strategies(const SpecBenchOptions& options);

}  // namespace specbound
