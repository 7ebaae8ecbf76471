// Settings against plain decoding on this machine, turn by turn: what replay and theory are held
// against.
#pragma once

#include <atomic>
#include <functional>
#include <span>

#include "engine/backend.h"
#include "model/exit_heads.h"
#include "trace/cost_model.h"
#include "trace/counters.h"
#include "tune/tuning_trace.h"

namespace specbound {

struct MeasuredSpeedup {
  int replies = 0;
  double speedup = 0;                                 // median over replies
  double plain_seconds = 0, speculative_seconds = 0;  // sums over replies of each one's median
  double priced_seconds = 0;                          // the same rounds under the cost model
  Counters counters;                                  // of one run over all replies
  int64_t rows = 0;
  int64_t rejecting_rounds = 0;  // that ended at a wrong draft
  bool complete = true;          // false: aborted

  double compression_rate() const {
    return counters.rounds > 0 ? static_cast<double>(counters.decoded_tokens) / counters.rounds : 0;
  }
};

struct MeasureSpeedupOptions {
  int repeats = 3;  // turns of each reply, plain and speculative
  std::function<bool(int32_t)> is_end;
  const std::atomic<bool>* abort = nullptr;
  std::function<void(int done, int total)> progress;
};

// The replies of `texts` again, from their prompts. The backend must have `heads` set with the
// shortlist of `settings`. A reply that differs from plain decoding is a programmer's error.
MeasuredSpeedup measure_speedup(Backend& backend, const ExitHeads& heads,
                                const HeadDefaults& settings, const CostModel& costs,
                                std::span<const TuningText> texts,
                                const MeasureSpeedupOptions& options);

}  // namespace specbound
