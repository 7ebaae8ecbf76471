// What passes over several rows cost, measured in a moment where a model is loaded: drafting weighs
// each row by it. The least of some turns, so that neither a busy machine nor a single slow round
// moves it; the same rounds are then planned on every run. docs/architecture.md 9.
#pragma once

#include <array>

#include "engine/backend.h"

namespace specbound {

struct RowCosts {
  // [rows] seconds of all layers and the logits behind no text, and what each position before the
  // rows adds: attention reads it for every row.
  std::array<double, kMaxRows + 1> start{}, position{};

  double pass(int rows, int pos) const { return start[rows] + pos * position[rows]; }
};

// Room for all that is measured; with a shorter context some of it is guessed.
inline constexpr int kRowCostContext = 1024 + kMaxRows;

// At a model's first load.
inline constexpr double kRowCostSeconds = 0.25;

// Takes about `seconds`, or as long as a pass of each size takes. Nothing may be cached (kv_len
// 0), and nothing is afterwards; what the cache holds does not matter.
RowCosts measure_row_costs(Backend& backend, double seconds = kRowCostSeconds);

// A machine of which nothing is known: rows cost little beside the weights that they share.
RowCosts assumed_row_costs();

}  // namespace specbound
