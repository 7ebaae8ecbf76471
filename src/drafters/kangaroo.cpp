#include "drafters/kangaroo.h"

#include "drafters/specbound.h"
#include "error.h"

namespace specbound {

void validate(const KangarooParams& params) {
  SpecBoundParams rows;
  rows.w_max = params.w_max;
  rows.tau = params.eta;
  validate(rows, 1);
}

Kangaroo::Kangaroo(const ExitHeads& heads, const KangarooParams& params)
    : params_(params),
      layer_(heads.layers(HeadKind::kKangaroo).at(0)),
      head_(heads.find(HeadKind::kKangaroo, layer_)) {
  validate(params);
}

DraftEnd Kangaroo::draft(Round& round) {
  while (!round.full()) {
    if (!round.run(1, layer_)) return DraftEnd::kAborted;
    const RowSampler::Check check = round.check(head_, 1);
    const float share = check.peak.confidence;
    round.checked(layer_, share);
    const int32_t token = check.token();
    if (round.would_end(token)) return DraftEnd::kReplyEnd;
    round.append(token, layer_);
    // It has been paid for, so it is the last draft, not none (as in the authors' code).
    if (!(share >= params_.eta)) return DraftEnd::kDifficult;
  }
  return DraftEnd::kWidth;
}

}  // namespace specbound
