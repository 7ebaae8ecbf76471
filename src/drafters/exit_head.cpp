#include "drafters/exit_head.h"

#include <cmath>

#include "error.h"

namespace specbound {

namespace {

// Takes what Backend::keep_state() kept.
bool takes_kept_state(HeadKind kind) {
  return kind == HeadKind::kChained || is_by_place(kind);
}

}  // namespace

std::optional<int32_t> LensHead::check(Round& round, int, float temperature,
                                       const ShouldExit& should_exit) {
  z_.resize(round.backend().config().vocab_size);
  round.backend().logits(round.newest(), 1, z_.data());
  if (!should_exit(round.backend().confidence(z_, temperature))) return std::nullopt;
  return round.draw(z_);
}

std::optional<int32_t> TrainedHead::check(Round& round, int layer, float temperature,
                                          const ShouldExit& should_exit) {
  const int head = heads_.find(kind_, layer);
  SB_CHECK(head >= 0);
  if (sees_all_rows(kind_)) {
    // Rows that it was not asked about have a state all the same.
    for (; seen_ < round.newest(); ++seen_) round.backend().exit_check(head, seen_, temperature);
    seen_ = round.newest() + 1;
  }
  const bool by_margin = rule_ == ConfidenceRule::kMargin;
  const float least = by_margin ? kAnyConfidence : should_exit.least();
  const RowSampler::Check check = round.check(head, temperature, {by_margin, least});
  if (!by_margin) {
    if (!should_exit(check.peak.confidence)) return std::nullopt;
    return check.token();
  }
  double margin = 0;
  const int32_t token = check.token(&margin);
  const HeadWeights& weights = heads_.heads()[head];
  float confidence = 0;  // of nothing but NaN and -inf
  if (check.peak.confidence > 0) {
    confidence = static_cast<float>(
        1 / (1 + std::exp(-(weights.margin_scale * margin + weights.margin_offset))));
  }
  if (!should_exit(confidence)) return std::nullopt;
  return token;
}

float TrainedHead::temperature(int layer) const {
  const int head = heads_.find(kind_, layer);
  SB_CHECK(head >= 0);
  return heads_.heads()[head].temperature;
}

bool TrainedHead::ready(const Round& round) const {
  if (takes_kept_state(kind_) && !has_state_) return false;
  if (!is_by_place(kind_)) return true;
  const auto depth = static_cast<size_t>(round.depth(round.newest()));
  return depth < heads_.heads()[heads_.find(kind_, 0)].medusa.size();
}

void TrainedHead::begin() {
  has_state_ = false;
  seen_ = 0;
}

void TrainedHead::on_commit(Backend& backend, int slot) {
  seen_ = 0;
  if (!takes_kept_state(kind_)) return;
  backend.keep_state(slot);
  has_state_ = true;
}

}  // namespace specbound
