// What `specbound bench --shape` found, as a table to read and as JSON, from which a script of
// tests/bench draws drafted rows and checks.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench_measure.h"
#include "tools/bench_model.h"
#include "tools/bench_replay.h"

namespace specbound {

struct BenchReport {
  ModelBytes bytes;
  ReadBandwidth read_bandwidth;
  std::vector<ContextCosts> contexts;
  std::vector<DraftCosts> drafts;  // [context]
  std::vector<CheckTime> checks;
  std::optional<LaunchCosts> launches;
  int n_gen = 0;
};
void print_report(const BenchReport& report);
nlohmann::ordered_json report_json(const BenchReport& report);

// Groups of a grid, one for each mean exit and number of checks; or one, of a trace.
struct ReplayReport {
  ModelBytes bytes;
  ReadBandwidth read_bandwidth;
  int prompt = 0;     // tokens before
  std::string trace;  // the file that the rounds come from; empty: drawn, one cell for each of
  std::vector<double> compression_rates;
  struct Group {
    double mean_exit = 0;  // as asked for
    int checks = 0;
    ReplayedGroup found;
  };
  std::vector<Group> groups;
};
void print_replay(const ReplayReport& report);
nlohmann::ordered_json replay_json(const ReplayReport& report);

}  // namespace specbound
