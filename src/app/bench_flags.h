// The command line of `specbound bench`.
#pragma once

#include <string>
#include <vector>

#include "app/cli.h"

namespace specbound {

struct BenchFlags {
  std::string shape = "7b", dtype = "int8", device = "auto", json;
  int context = 4096, n_gen = 128, repeats = 5, n_threads = 0, shortlist = 8192;
  std::string trace, head;
  std::vector<double> rates, exits, checks;
  bool grid = false;
  int prompt = 128;
  int rounds = 0;  // 0: 32, of a trace 256 at most

  // Throws Error(kUsage) for what contradicts itself; fills in the lists of a grid.
  void check();
  bool draws_rounds() const { return grid || !rates.empty() || !exits.empty() || !checks.empty(); }
  bool replays() const { return !trace.empty() || draws_rounds(); }
};
void add_bench_flags(CLI::App& app, BenchFlags& flags);

}  // namespace specbound
