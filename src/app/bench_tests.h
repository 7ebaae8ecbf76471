// `specbound bench -m`: the tests of llama-bench, by the names and columns that it has: prompts of
// so many tokens (pp512) and so many tokens decoded one by one (tg128), at a depth of so many
// positions before them (@ d4096).
#pragma once

#include <string>
#include <vector>

#include "app/bench_flags.h"
#include "app/bench_output.h"

namespace specbound {

// One of n_prompt and n_gen is 0.
struct BenchTest {
  int n_prompt = 0, n_gen = 0, depth = 0;

  std::string name() const;  // "pp512", "tg128 @ d4096"
  // Positions that it needs.
  int context() const { return depth + n_prompt + n_gen + 1; }
};
// At each depth the prompts, then the tokens.
std::vector<BenchTest> bench_plan(const BenchFlags& flags);

// Prints what it finds, model by model, and writes it. Throws Error for what keeps a model from
// being measured, Interrupted on Ctrl-C.
void bench_tests(const BenchFlags& flags, const BenchOutput& output);

}  // namespace specbound
