// What heads say on rows that they have not learnt from, and what their confidence is worth there.
#pragma once

#include <cstdint>
#include <functional>
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

// What heads are compared by in the middle of a training: how often they are right of the first
// rows, and what the model says there, which the first look finds out for all.
struct Comparison {
  int64_t rows = 0;
  std::map<int, std::vector<int32_t>> finals = {};  // by chunk
};

// Measures them on the validation rows of `split`, prompts aside; reports have but how often heads
// are right, without margins, where they are compared, and all with nullptr. Tokens outside the
// shortlist count as wrong. `progress(done)`, 0..1, may say false to stop: what comes back is then
// empty.
Validation validate(const Gemm& gemm, const TrainingStep& rows, const ValidatedHeads& of,
                    const FeatureSource& features, const RowSplit& split,
                    std::span<const int32_t> shortlist, int n_layers, Comparison* compared,
                    const std::function<bool(double)>& progress);

}  // namespace specbound
