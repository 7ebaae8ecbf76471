// What passes over several rows cost: drafting weighs each row by it. Measured in a moment where a
// model is loaded, the least of some turns, so that a single slow round does not move it; and
// corrected by what rounds take, for that moment may have been a busy one. docs/architecture.md 9.
#pragma once

#include <array>
#include <cstdint>

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

// Raised where kernels change what rows cost: what is kept of others is measured again.
inline constexpr int kRowKernels = 2;

// At a model's first load.
inline constexpr double kRowCostSeconds = 0.25;

// Takes about `seconds`, or as long as a pass of each size takes. Nothing may be cached (kv_len
// 0), and nothing is afterwards; what the cache holds does not matter.
RowCosts measure_row_costs(Backend& backend, double seconds = kRowCostSeconds);

// A machine of which nothing is known: rows cost little beside the weights that they share. Not in
// seconds, but in passes over one row.
RowCosts assumed_row_costs();

// Row costs that follow what rounds take.
class LearnedRowCosts {
 public:
  explicit LearnedRowCosts(const RowCosts& costs);

  double pass(int rows, int pos) const { return now_.pass(rows, pos); }
  // A pass over `rows` rows behind `pos` positions took so long. None at all says nothing.
  void learn(int rows, int pos, double seconds);
  // Whether they are in seconds of this machine: enough passes were seen.
  bool scaled() const { return scaled_ == kScale; }
  // Whether so many were that they say more than what was measured in a moment.
  bool settled() const { return passes_ >= kSettled; }
  const RowCosts& now() const { return now_; }

 private:
  void apply();

  static constexpr int kScale = 3;     // passes whose median gives the scale of all
  static constexpr int kSettled = 32;  // passes

  RowCosts first_, now_;
  std::array<double, kScale> scale_{};
  int scaled_ = 0;
  int64_t passes_ = 0;
  std::array<double, kMaxRows + 1> factor_;  // [rows] of what was measured at first
  std::array<double, kMaxRows + 1> seen_{};  // [rows] passes, as far as they count
};

}  // namespace specbound
