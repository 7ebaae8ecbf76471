// The cost model of this machine and model, measured in a second or two. docs/architecture.md 9.
#pragma once

#include <functional>

#include "engine/backend.h"
#include "model/exit_heads.h"
#include "trace/cost_model.h"

namespace specbound {

struct MeasureOptions {
  int context = 200;   // positions of K/V, as in the middle of a chat
  double seconds = 2;  // about; slow models take at least one turn over everything
  float temperature = 0.7f;
  std::function<bool(double done)> progress;  // 0..1; false stops
};

// Medians of many turns, so that a slow spell of the machine touches everything alike. `heads` may
// be nullptr. Leaves the K/V empty and the whole shortlist set. Slow models are measured on some of
// their layers and row counts. Throws Error(kLimit) for memory that cannot be had; nothing
// (n_layers 0) when stopped.
CostModel measure_costs(Backend& backend, const ExitHeads* heads, const MeasureOptions& options);

}  // namespace specbound
