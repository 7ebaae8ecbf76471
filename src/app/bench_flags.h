// The command line of `specbound bench`, which measures one of three things: a shape of random
// weights, the tests of llama-bench on a model, or two ways of decoding it in turn.
#pragma once

#include <string>
#include <vector>

#include "app/bench_output.h"
#include "app/cli.h"
#include "app/prompt.h"
#include "app/speculation_flags.h"

namespace specbound {

enum class BenchMode { kShape, kTests, kCompare };

struct BenchFlags {
  // ---- all three ----
  BenchMode mode = BenchMode::kShape;  // known to check()
  ModelFlags model;                    // but for `model` and `n_ctx`; --device, -t, --dtype
  int context = -1;                    // -c; -1: the mode's own
  std::vector<int> n_gen = {128};      // one, but for tests
  std::vector<int> n_prompt;           // likewise; empty: the mode's own
  int repeats = 5;
  BenchFormat output = BenchFormat::kMarkdown;
  std::string json;
  SpeculationFlags drafting;  // of a shape: --head and --shortlist

  // ---- a shape ----
  std::string shape = "7b", trace;
  std::vector<double> rates, exits, checks;
  bool grid = false;
  int rounds = 0;  // 0: 32, of a trace 256 at most

  // ---- models ----
  std::vector<std::string> models;  // empty: the bundled one
  std::vector<int> depths = {0};    // tests: positions before them
  std::string compare;              // "spec"; empty: tests
  std::string prompts;              // a file; empty: the built-in ones
  PromptFlags prompt;
  SamplingFlags sampling;
  bool ignore_eos = false;

  // Finds the mode, fills in what it leaves open. Throws Error(kUsage) for what contradicts itself
  // and for flags of another mode.
  void check(const CLI::App& app);

  // ---- of a shape ----
  bool int8() const { return model.device.dtype != GpuDtype::kFp16; }
  const char* dtype() const { return int8() ? "int8" : "fp16"; }
  int shortlist() const { return drafting.shortlist.value_or(8192); }
  bool draws_rounds() const { return grid || !rates.empty() || !exits.empty() || !checks.empty(); }
  bool replays() const { return !trace.empty() || draws_rounds(); }
};
void add_bench_flags(CLI::App& app, BenchFlags& flags);

}  // namespace specbound
