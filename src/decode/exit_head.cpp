#include "decode/exit_head.h"

#include <cmath>

#include "error.h"

namespace specbound {

float LensHead::confidence(Round& round, int, float temperature) {
  z_.resize(round.backend().config().vocab_size);
  round.backend().logits(round.newest(), 1, z_.data());
  return round.backend().confidence(z_, temperature);
}

int32_t LensHead::token(Round& round) {
  return round.draw(z_);
}

int32_t TrainedHead::draw(Round& round, double* margin) const {
  std::span<const int32_t> ids;
  if (kind_ != HeadKind::kFull) ids = heads_.shortlist();
  return round.exit_draw(ids, margin);
}

float TrainedHead::confidence(Round& round, int layer, float temperature) {
  const int head = heads_.find(kind_, layer);
  SB_CHECK(head >= 0);
  const bool by_margin = rule_ == ConfidenceRule::kMargin;
  // The draw of a greedy sampler is the peak that the check has found.
  const SamplingParams& sampling = round.sampler().params();
  drawn_ = !by_margin && sampling.temperature == 0 && sampling.repeat_penalty == 1;
  const ExitPeak peak = drawn_ ? round.backend().exit_check(head, round.newest(), temperature)
                               : round.exit_check(head, temperature);
  token_ = peak.token;
  if (!by_margin) return peak.confidence;
  double margin = 0;
  token_ = draw(round, &margin);
  drawn_ = true;
  const HeadWeights& weights = heads_.heads()[head];
  if (!(peak.confidence > 0)) return 0;  // nothing but NaN and -inf
  return static_cast<float>(
      1 / (1 + std::exp(-(weights.margin_scale * margin + weights.margin_offset))));
}

int32_t TrainedHead::token(Round& round) {
  return drawn_ ? token_ : draw(round);
}

void TrainedHead::settled(Backend& backend, int slot) {
  if (kind_ != HeadKind::kChained) return;
  backend.keep_state(slot);
  has_state_ = true;
}

}  // namespace specbound
