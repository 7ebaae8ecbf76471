// What `specbound bench` found, as a table to read and as JSON. bench.cpp says what each figure is.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/bench_measure.h"
#include "app/bench_replay.h"

namespace specbound {

// Bytes that have to be read at least once, in the order of a pass.
struct ModelBytes {
  double layer = 0;  // weights of one
  double lm_head = 0;
  double kv_position = 0;  // K and V of one position in one layer
  int n_layers = 0;

  // Of one layer over one row with `context` positions before it.
  double row(double context) const { return layer + kv_position * (context + 1); }
  double token(double context) const { return n_layers * row(context) + lm_head; }
};
// `int8`: matrices are INT8, else FP16.
ModelBytes model_bytes(const ModelConfig& config, bool int8);

struct BenchReport {
  ModelBytes bytes;
  Spread read_bandwidth;  // bytes a second, in the same run
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
  Spread read_bandwidth;
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

nlohmann::ordered_json spread_json(const Spread& spread);

}  // namespace specbound
