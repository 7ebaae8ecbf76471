#include "decode/hybrid.h"

namespace specbound {

void HybridSpeculator::begin(std::span<const int32_t> text) {
  first_.begin(text);
  index_.assign(text);
}

DraftEnd HybridSpeculator::draft(Round& round) {
  const DraftEnd end = first_.draft(round);
  if (end == DraftEnd::kReplyEnd || end == DraftEnd::kAborted || round.full()) return end;
  const int place = index_.find(round.history(round.newest()));
  return place < 0 ? end : draft_from(round, place);
}

void HybridSpeculator::accept(Backend& backend, const RoundEvent& round) {
  first_.accept(backend, round);
  for (const TokenEvent& event : round.tokens) index_.push(event.token);
}

}  // namespace specbound
