// What `spec-bench` is asked for: which questions, what drafts, how tokens are picked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli.h"
#include "app/speculation_flags.h"

namespace specbound {

struct SpecBenchFlags {
  ModelFlags model;
  SamplingFlags sampling;  // greedy, seed 1 where not given
  SpeculationFlags drafting;
  std::string questions;  // a file
  std::string out;        // a folder; empty: answers are kept nowhere
  std::string json;
  int n_predict = 1024;
  int limit = 0;                      // 0: all
  std::string compare;                // names; empty: what `drafting` says alone
  std::vector<std::string> settings;  // "NAME: FLAGS"
  bool fresh = false, sampling_table = false, sweep = false;

  // Throws Error(kUsage) for what was given and does not go together.
  void check() const;
};
void add_spec_bench_flags(CLI::App& app, SpecBenchFlags& flags);

// One that answers every question.
struct SpecBenchDrafter {
  std::string name;                       // also of its answer file: letters, digits and -._
  std::optional<SpeculationFlags> flags;  // none: plain decoding
  bool needed = true;  // else left out, with a line that says why, where it cannot be had
};

// Plain decoding first, then what `flags` name, in that order; without --compare, --setting and
// with --sweep, which names its own (app/spec_bench_sweep.h), one drafter. Throws Error(kUsage).
std::vector<SpecBenchDrafter> spec_bench_drafters(const SpecBenchFlags& flags);

// A way to pick tokens.
struct SpecBenchStrategy {
  std::string name;    // of a row of Table 2
  std::string prefix;  // of its answer files; empty where there is one way, and of greedy
  SamplingParams sampling;
};
// As --temp and the like say; with --sampling-table the four of the paper's Table 2. Throws
// Error(kUsage).
std::vector<SpecBenchStrategy> spec_bench_strategies(const SpecBenchFlags& flags);

}  // namespace specbound
