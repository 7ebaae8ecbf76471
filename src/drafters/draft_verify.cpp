#include "drafters/draft_verify.h"

#include <algorithm>

#include "drafters/specbound.h"
#include "error.h"

namespace specbound {

std::vector<int> default_skipped_layers(int n_layers) {
  std::vector<int> layers;
  for (int l = 3; l <= n_layers - 2; l += 2) layers.push_back(l);
  if (layers.empty()) layers.push_back(n_layers / 2 + 1);
  return layers;
}

void validate(const DraftVerifyParams& params, int n_layers) {
  SpecBoundParams rows;
  rows.w_max = params.w_max;
  rows.tau = params.tau;
  validate(rows, n_layers);
  for (const int layer : params.skipped) {
    if (layer >= 1 && layer <= n_layers) continue;
    throw Error(ErrorCode::kUsage,
                format("skip_layers: expected layers from 1 to %d, found %d", n_layers, layer));
  }
}

DraftEnd DraftVerify::draft(Round& round) {
  const DraftEnd end = guess(round);
  round.rewind();
  return end;
}

DraftEnd DraftVerify::guess(Round& round) {
  const int n_layers = round.backend().config().n_layers;
  while (!round.full()) {
    if (!round.run_newest_without(params_.skipped)) return DraftEnd::kAborted;
    float p = 0;
    const auto token = head_.check(round, n_layers, 1, [&](float found) {
      round.checked(n_layers, p = found);
      return true;
    });
    if (round.would_end(*token)) return DraftEnd::kReplyEnd;
    round.append(*token, 0);
    // It has been paid for, so it is the last draft, not none (as in the paper's code).
    if (!(p >= tau_)) return DraftEnd::kDifficult;
  }
  return DraftEnd::kWidth;
}

// The paper's rule, with its constants. Where the width was the bound, a lower threshold would
// change nothing.
void DraftVerify::accept(Backend&, const RoundEvent& round) {
  if (round.drafted() == 0) return;
  int right = 0;
  for (const TokenEvent& token : round.tokens) right += token.accepted() ? 1 : 0;
  accepted_ = 0.5f * accepted_ + 0.5f * static_cast<float>(right) / round.drafted();
  float next = tau_;
  if (accepted_ < kTarget) {
    next += 0.01f;
  } else if (round.draft_end != DraftEnd::kWidth) {
    next -= 0.01f;
  }
  tau_ = std::clamp(0.9f * tau_ + 0.1f * next, 0.0f, 1.0f);
}

}  // namespace specbound
