// Texts on their way to the engine, and their embeddings on the way back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/job.h"

namespace specbound::server {

class EmbeddingJob final : public Job {
 public:
  // One or more, each of 1 to n_ctx tokens.
  explicit EmbeddingJob(std::vector<std::vector<int32_t>> inputs) : inputs_(std::move(inputs)) {}

  // [input] (dim), once they are all there. Throws the ApiError for which it is over.
  std::optional<std::vector<std::vector<float>>> take() {
    const std::lock_guard lock(mutex_);
    news_.clear();
    if (error_) throw ApiError(*std::exchange(error_, std::nullopt));
    if (!over_) return std::nullopt;
    return std::move(embeddings_);
  }

  // A chunk of an input at a time, so that replies beside it go on.
  Progress go_on(ServedModel& model, Metrics& metrics) override {
    if (cancelled()) return Progress::kCancelled;
    const std::vector<int32_t>& tokens = inputs_[embeddings_.size()];
    if (!under_way_) under_way_ = model.begin_embedding(tokens);
    std::optional<std::vector<float>> embedding = under_way_->go_on();
    if (!embedding) return Progress::kGoesOn;
    under_way_.reset();
    metrics.count_embedding(tokens.size());
    embeddings_.push_back(std::move(*embedding));
    return embeddings_.size() == inputs_.size() ? Progress::kDone : Progress::kGoesOn;
  }
  void leave() override { under_way_.reset(); }

 private:
  const std::vector<std::vector<int32_t>> inputs_;
  // The engine's until it is over.
  std::vector<std::vector<float>> embeddings_;
  std::unique_ptr<EmbeddingUnderWay> under_way_;  // of the next input
};

}  // namespace specbound::server
