// What heads held when they were right most often of the rows for validation, in the middle of a
// training: a small text is learnt by heart, and then they are right less often of others.
#pragma once

#include <span>
#include <vector>

#include "train/training_step.h"

namespace specbound {

struct HeadReport;

struct BestHead {
  double score = -1;          // right_in_a_row() then; below 0: nothing is held
  double epoch = 0;           // passes over the rows until then
  std::vector<float> values;  // of the head's parameters, one behind the other
};

// Guesses of the head that are right in a row, on average; at most one of heads with one guess.
double right_in_a_row(const HeadReport& report);

// Holds, in `best` [head], what those heads have that score better in `reports` [head] than ever
// before.
void hold_best(std::span<const HeadReport> reports, double epoch, std::span<LearningHead> heads,
               std::span<BestHead> best);

// Whether every head scores worse than its best by more than chance makes of so many rows.
bool all_are_worse(std::span<const HeadReport> reports, std::span<const BestHead> best);

// Puts back what is held of those heads that score worse in `reports`, of the same rows; `best` of
// the others is emptied.
void put_back_best(std::span<const HeadReport> reports, std::span<LearningHead> heads,
                   std::span<BestHead> best);

}  // namespace specbound
