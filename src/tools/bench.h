// `specbound bench` measures one of three things: a shape of random weights, the tests of
// llama-bench on a model, or two ways of decoding it in turn.
#pragma once

#include <string>
#include <vector>

#include "runtime/model_options.h"
#include "runtime/prompt.h"
#include "runtime/reply_options.h"
#include "runtime/speculation_options.h"
#include "tools/bench_output.h"

namespace specbound {

struct BenchOptions {
  // ---- all three ----
  ModelOptions model;              // but for `model` and `n_ctx`
  int context = -1;                // -1: as each has its own
  std::vector<int> n_gen = {128};  // tokens of a reply; more than one for tests alone
  std::vector<int> n_prompt;       // likewise of a prompt
  int repeats = 5;
  BenchFormat output = BenchFormat::kMarkdown;
  std::string json;
  SpeculationOptions drafting;  // of a shape: head and shortlist

  // ---- a shape ----
  std::string shape = "7b", trace;
  std::vector<double> rates, exits, checks;
  int rounds = 0;  // 0: 32, of a trace 256 at most

  // ---- models ----
  std::vector<std::string> models;  // empty: the bundled one
  std::vector<int> depths = {0};    // tests: positions before them
  std::string prompts;              // a file; empty: the built-in ones
  PromptOptions prompt;
  SamplingOptions sampling;
  bool ignore_eos = false;

  // ---- of a shape ----
  bool int8() const { return model.device.dtype != GpuDtype::kFp16; }
  const char* dtype() const { return int8() ? "int8" : "fp16"; }
  int shortlist() const { return drafting.shortlist.value_or(8192); }
  bool replays() const { return !trace.empty() || !rates.empty(); }
};

// All three print what they find and write it. They throw Error for what keeps it from being
// measured, Interrupted on Ctrl-C.

// How fast a model of some size decodes and drafts here, with random weights and no file; and what
// speculation would give it, by replaying rounds through it.
void bench_shape(const BenchOptions& options, BenchOutput& output);

// The tests of llama-bench, by the names and columns that it has.
void bench_tests(const BenchOptions& options, BenchOutput& output);

// Prompts decoded plainly and speculatively in turn, in one process, on one backend: what
// speculation gives here, losses like gains, and that it changes no token. False where a reply
// differs, which is told on stderr.
bool bench_compare(const BenchOptions& options, BenchOutput& output);

// One of n_prompt and n_gen is 0.
struct BenchTest {
  int n_prompt = 0, n_gen = 0, depth = 0;

  std::string name() const;  // "pp512", "tg128 @ d4096"
  // Positions that it needs.
  int context() const { return depth + n_prompt + n_gen + 1; }
};
// At each depth the prompts, then the tokens.
std::vector<BenchTest> bench_plan(const BenchOptions& options);

}  // namespace specbound
