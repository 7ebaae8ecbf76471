// The drafting loop without the model: rounds as SpecBound would make them along a recorded text,
// priced by the cost model. docs/architecture.md 3.2, 9.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "model/exit_heads.h"
#include "trace/cost_model.h"
#include "trace/event.h"
#include "tune/tuning_trace.h"

namespace specbound {

struct ReplaySettings {
  HeadDefaults heads;
  bool margin = false;  // confidence by the margin, not by softmax: alpha is not used
};

struct ReplayResult {
  int64_t tokens = 0, rounds = 0, rows = 0, checks = 0, passes = 0;
  int64_t drafted = 0, accepted = 0;
  int64_t exit_layers = 0;                // sum over accepted drafts
  std::array<double, kPhases> seconds{};  // by Phase; the rest of a round counts as sampling
  double total_seconds = 0;
  double plain_seconds = 0;  // of the same tokens, plainly
  bool complete = true;      // false: given up, it took longer than asked for

  double compression_rate() const { return ratio(tokens, rounds); }
  double acceptance() const { return ratio(accepted, drafted); }
  double mean_exit_layer() const { return ratio(exit_layers, accepted); }
  double speedup() const { return total_seconds > 0 ? plain_seconds / total_seconds : 0; }

  void add(const ReplayResult& other);

 private:
  static double ratio(int64_t a, int64_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0;
  }
};

// A confidence at an alpha between two that were recorded is interpolated; beyond them it is the
// outermost. Rows behind a wrong draft, which the trace cannot know, take what it has at their
// place in the text. Throws Error(kUsage) for a head that the trace lacks.
class Replay {
 public:
  // Both must outlive it.
  Replay(const TuningTrace& trace, const CostModel& costs);

  // Given up, and complete = false, once it has cost more than `most_seconds`.
  ReplayResult run(const ReplaySettings& settings,
                   double most_seconds = std::numeric_limits<double>::infinity()) const;
  // One reply of the trace.
  ReplayResult run_reply(const ReplaySettings& settings, int reply) const;
  double plain_seconds() const;

 private:
  struct Plan;
  Plan plan(const ReplaySettings& settings) const;
  void replay(const Plan& plan, const TracedReply& reply, ReplayResult& result) const;

  const TuningTrace& trace_;
  const CostModel& costs_;
};

}  // namespace specbound
