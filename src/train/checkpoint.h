// The state of a training on disk, replaced whole: what a killed run goes on from.
//
//   magic u64 | options u64 | place 3 i32 | heads i32 | counts ... | per head: score and epoch f64,
//   values of its best; per parameter: value, mean, square | FNV-1a of all before
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/batches.h"
#include "train/best_heads.h"

namespace specbound {

// Beside the heads themselves.
struct TrainingState {
  BatchPlace place;
  int64_t step = 0;       // optimizer steps made
  int64_t rows = 0;       // rows learnt from, each time counted
  int64_t head_rows = 0;  // the same times heads and chained steps
  double seconds = 0;     // spent, in all runs together
  double training_seconds = 0;
  std::vector<double> kl_start;                       // [head]
  std::vector<std::pair<double, double>> loss_curve;  // (epoch, loss)
  double curve_sum = 0;                               // of the losses since its last point
  int64_t curve_batches = 0;
  // Comparisons on the rows for validation: the part of the training and the whole passes over the
  // rows at the newest, how many in a row found all heads worse, what each held when it was best.
  double compared_at = 0;
  int64_t compared_passes = 0, worse = 0;
  std::vector<BestHead> best;  // [head]
};

// Throws Error(kFile).
void save_checkpoint(const std::string& path, uint64_t options, const TrainingState& state,
                     std::span<LearningHead> heads);

// What `path` holds, into `heads`, which have their sizes; nothing, and heads untouched, when there
// is no such file, when it is damaged or of a training with other options.
std::optional<TrainingState> load_checkpoint(const std::string& path, uint64_t options,
                                             std::span<LearningHead> heads);

}  // namespace specbound
