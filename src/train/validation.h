// What heads say on rows that they have not learnt from, and what their confidence is worth there.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "train/batches.h"
#include "train/head_trainer.h"

namespace specbound {

struct Validation {
  std::vector<HeadReport> reports;   // [head]; kl_end is what was measured, kl_start 0
  std::vector<LogisticFit> margins;  // [head]
};

// alpha of the annealed temperatures T_l = 1 + alpha (1 - l / n_layers) in the report.
inline constexpr float kReportAlpha = 0.2f;

// Draft layers, which have forms, or heads of all other kinds, the x of each being that of layer
// index x_index[head].
struct ValidatedHeads {
  std::span<const LearningHead> heads;
  std::span<const int> x_index;
  std::span<const BlockForm> forms;
};

// How heads are looked at: as a file has it, or as they are compared in the middle of a training,
// by how often they are right of the first rows. And what the model says there, which the first of
// several looks finds out for all.
struct Look {
  static constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();
  bool only_right = false;
  int64_t rows = kAllRows;
  struct Finals {
    std::vector<int32_t> tokens;  // [row of the chunk] its own; -1 where nobody asks
    std::vector<float> shares;    // [row of the chunk] of the shortlist, at T = 1
  };
  std::map<int, Finals> finals = {};  // by chunk
};

// Measures them on the validation rows of `split`, prompts aside; reports have but how often heads
// are right, without margins, where nothing else is wanted. Tokens outside the shortlist count as
// wrong. `progress(done)`, 0..1, may say false to stop: what comes back is then empty.
Validation validate(const Gemm& gemm, const TrainingStep& rows, const ValidatedHeads& of,
                    const FeatureSource& features, const RowSplit& split,
                    std::span<const int32_t> shortlist, int n_layers, Look& look,
                    const std::function<bool(double)>& progress);

}  // namespace specbound
