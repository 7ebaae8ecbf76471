// Learning on the CPU: training_step.h and adamw.h on floats in memory.
#include <algorithm>

#include "train/in_memory_learner.h"

namespace specbound {
namespace {

class CpuLearner final : public InMemoryLearner {
 public:
  CpuLearner(const Gemm& gemm, const LearningTask& task) : InMemoryLearner(gemm, task) {}

  void add_equations(int chunk, int most) override;
  int64_t learn(std::vector<RowAt>& rows, int64_t step, float rate,
                std::span<double> losses) override;

 private:
  std::vector<float> u_, y_;  // rows of chained equations
  TrainingBatch batch_;
};

void CpuLearner::add_equations(int number, int most) {
  const FeatureChunk chunk = task_.features.load(number);
  const int rows = std::min(most, chunk.rows);
  const size_t dim = static_cast<size_t>(chunk.dim);
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const float* x = chunk.x[static_cast<size_t>(wanted_[i].layer)].data();
    if (!wanted_[i].chained) {
      equations_[i].add(gemm_, rows, x, chunk.y.data());
      continue;
    }
    u_.clear();
    y_.clear();
    for (size_t r = 1; r < static_cast<size_t>(rows); ++r) {
      if (!chunk.follows[r]) continue;
      const float* before = chunk.y.data() + (r - 1) * dim;
      u_.insert(u_.end(), x + r * dim, x + (r + 1) * dim);
      u_.insert(u_.end(), before, before + dim);
      y_.insert(y_.end(), before + dim, before + 2 * dim);
    }
    equations_[i].add(gemm_, static_cast<int>(y_.size() / dim), u_.data(), y_.data());
  }
}

int64_t CpuLearner::learn(std::vector<RowAt>& rows, int64_t step, float rate,
                          std::span<double> losses) {
  fill_batch(chunks_.chunks(), task_.plan, rows, batch_);
  task_.step.run(task_.heads, task_.x_index, batch_, losses);
  int64_t head_rows = 0;
  for (LearningHead& head : task_.heads) {
    task_.adam.step(gemm_.pool(), head.parameters(), step, rate);
    head_rows += rows_of(head, batch_.n, batch_.chained);
  }
  return head_rows;
}

}  // namespace

int64_t rows_of(const LearningHead& head, int n, std::span<const int> chained) {
  if (!has_state(head.kind)) return n;
  int64_t rows = 0;
  for (const int steps : steps_of(head, chained)) rows += steps;
  return rows;
}

std::unique_ptr<HeadLearner> make_cpu_learner(const Gemm& gemm, const LearningTask& task) {
  return std::make_unique<CpuLearner>(gemm, task);
}

}  // namespace specbound
