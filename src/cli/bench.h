// The command line of `specbound bench`: which flags go with which of the things it measures.
#pragma once

#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "tools/bench.h"

namespace specbound {

enum class BenchMode { kShape, kTests, kCompare };

struct BenchFlags {
  BenchOptions options;
  std::string compare;  // "spec"; empty: tests, or a shape without a model
  bool grid = false;    // the paper's rates
  // Known to check():
  BenchMode mode = BenchMode::kShape;
  bool usual_shape = false;  // nobody said what to measure
  std::vector<std::string> arguments;

  // Finds the mode and fills in what that leaves open. Throws Error(kUsage) for what contradicts
  // itself and for flags of another mode.
  void check(const Flags& flags);
  bool draws_rounds() const {
    return grid || !options.rates.empty() || !options.exits.empty() || !options.checks.empty();
  }
};
void add_bench_flags(Flags& flags, BenchFlags& given);

}  // namespace specbound
