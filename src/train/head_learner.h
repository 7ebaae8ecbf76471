// What does the arithmetic of a training, on the CPU or on a device: it holds the features that are
// learnt from, sums the equations of the least-squares start, and takes steps of AdamW. Which rows
// learn when, at which rate, and what is saved is the trainer's (head_trainer.cpp), so a training
// can go on where the other kind left it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/adamw.h"
#include "train/batches.h"
#include "train/least_squares.h"
#include "train/training_step.h"

namespace specbound {

// What is to be learnt. All that it points to outlives the learner.
struct LearningTask {
  const FeatureSource& features;
  TrainingStep& step;  // rows of lm_head and of the shortlist
  std::span<LearningHead> heads;
  std::span<const int> x_index;  // [head] layer index of its x; not of draft layers
  BatchPlan plan;
  int most_rows = 0;  // of a batch
  AdamW adam;
  std::span<const BlockForm> forms = {};  // [head] of draft layers, which learn among themselves
};

// Heads of one layer that carry no state share a solution, and those that do another.
struct EquationsOf {
  int layer;  // index; of draft layers, which share none, the head's
  bool chained;
  bool operator==(const EquationsOf&) const = default;
};

inline constexpr int kAllRows = std::numeric_limits<int>::max();

class HeadLearner : public OpenChunks {
 public:
  virtual std::string arithmetic() const = 0;  // "OpenBLAS 0.3.21"

  // Several sets of equations over the same rows: of some chunks the first, at most `most`. The
  // state of a chained head is the true one, y of the row before.
  virtual void begin_equations(std::span<const EquationsOf> wanted) = 0;
  virtual void add_equations(int chunk, int most) = 0;
  virtual std::vector<LeastSquares> take_equations() = 0;

  // Learning goes on from what the heads hold now.
  virtual void begin() = 0;
  // The `step`-th step from 1, on rows of open chunks. losses[head] is as TrainingStep::run has it.
  // Returns the rows times heads and steps.
  virtual int64_t learn(std::vector<RowAt>& rows, int64_t step, float rate,
                        std::span<double> losses) = 0;
  // The heads hold what was learnt, with the optimizer's memory.
  virtual void fetch() = 0;
};

// Rows that a head learns from in a batch of n (TrainingBatch), each step of a head with a state
// counted.
int64_t rows_of(const LearningHead& head, int n, std::span<const int> chained);

std::unique_ptr<HeadLearner> make_cpu_learner(const Gemm& gemm, const LearningTask& task);

}  // namespace specbound
