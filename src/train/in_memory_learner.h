// What the learners of the CPU share, whatever their batches are: features and equations as floats
// in memory, where the heads learn in place.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/head_learner.h"

namespace specbound {

class InMemoryLearner : public HeadLearner {
 public:
  std::string arithmetic() const override { return gemm_.name(); }
  void open(std::span<const int> chunks) override { chunks_.open(chunks); }
  std::span<const uint8_t> follows(int chunk) const override { return chunks_.follows(chunk); }

  void begin_equations(std::span<const EquationsOf> wanted) override {
    wanted_.assign(wanted.begin(), wanted.end());
    equations_.clear();
    for (const EquationsOf& of : wanted) equations_.emplace_back(inputs(of), task_.features.dim);
  }
  std::vector<LeastSquares> take_equations() override { return std::move(equations_); }

  void begin() override {}
  void fetch() override {}

 protected:
  InMemoryLearner(const Gemm& gemm, const LearningTask& task)
      : gemm_(gemm), task_(task), chunks_(task.features) {}

  // Of which the map that is solved for is.
  virtual int inputs(const EquationsOf& of) const {
    return task_.features.dim * (of.chained ? 2 : 1);
  }

  const Gemm& gemm_;
  LearningTask task_;
  ChunksInMemory chunks_;
  std::vector<EquationsOf> wanted_;
  std::vector<LeastSquares> equations_;  // [wanted]
};

}  // namespace specbound
