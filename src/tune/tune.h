// The search for settings: thousands of replays of one trace under the measured costs.
// docs/architecture.md 6, 9.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/exit_heads.h"
#include "tune/replay.h"

namespace specbound {

struct TunePoint {
  ReplaySettings settings;
  ReplayResult result;
};

struct TuneOptions {
  std::optional<HeadKind> kind;                 // only this one
  int most_checks = 3;                          // check layers of one setting
  bool margin = false;                          // let the margin decide, not softmax
  std::function<bool(int64_t tried)> progress;  // false stops: the best so far wins
};

struct TuneOutcome {
  TunePoint winner;  // of the highest speedup; w_max 1 when nothing beats plain decoding
  std::vector<TunePoint> pareto;   // by rising compression rate and falling speedup
  std::vector<TunePoint> by_kind;  // the best of each kind
  int64_t tried = 0;
  double seconds = 0;
};

// Check layers by growing the best smaller sets; the other settings by coordinate descent for each
// set. Deterministic. Throws Error(kUsage) when the trace has no head to search.
TuneOutcome tune(const TuningTrace& trace, const CostModel& costs, const TuneOptions& options);

}  // namespace specbound
