// A comparison as it is shown: how far each side is, and at the end the times, their ratio and
// whether the texts are the same. No drawing.
#pragma once

#include <optional>
#include <string>

#include "gui/model/app_state.h"
#include "gui/model/trace_model.h"

namespace specbound::gui {

struct ComparisonSide {
  enum class State { kWaiting, kReading, kRunning, kDone };
  State state = State::kWaiting;
  int tokens = 0;
  double seconds = 0;   // of decoding
  float share = 0;      // of the time axis, 0..1
  std::string figures;  // "34 tokens in 1.20 s, 28.3 tokens/s"
};

struct ComparisonSummary {
  ComparisonSide plain, speculative;
  double axis_seconds = 0;      // what share 1 is
  std::optional<double> ratio;  // plain time over speculative, once both are known
  std::string headline;         // "1.94 times as fast with speculation"
  std::string caution;          // why the ratio says little; empty: it says enough
  std::string verdict;          // "identical: yes"
  std::string explanation;      // of the verdict
  bool identical = false;
};

// "1.45 ms", "2.31 s"
std::string duration(double seconds);

// `plain`, `speculative`: the sides' replies as far as they are known.
ComparisonSummary summarize(const Comparison& comparison, const ReplyTrace* plain,
                            const ReplyTrace* speculative);

}  // namespace specbound::gui
