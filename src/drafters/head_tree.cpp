#include "drafters/head_tree.h"

#include <algorithm>

#include "error.h"

namespace specbound {

namespace {

// Of candidates: which one waits longer.
constexpr auto kAfter = [](const auto& a, const auto& b) {
  return a.right != b.right ? a.right < b.right : a.number > b.number;
};

}  // namespace

HeadTree::HeadTree(const ExitHeads& heads, HeadKind kind, int w_max)
    : kind_(kind),
      head_(heads.find(kind, 0)),
      levels_(is_layer(kind) ? kEagleLevels
              : head_ < 0    ? 0
                             : static_cast<int>(heads.heads()[head_].medusa.size())),
      w_max_(w_max) {
  SB_CHECK(is_published(kind) && head_ >= 0);
  SB_CHECK(w_max >= 1 && w_max <= kMaxRows);
}

void HeadTree::begin(std::span<const int32_t>) {
  has_state_ = false;
}

// What may follow the newest row. Of a medusa head the first row of a depth is asked for all; an
// EAGLE layer wants to see all rows, in order.
std::span<const LikelyToken> HeadTree::ask(Round& round) {
  const int slot = round.newest();
  std::vector<LikelyToken>& likely = likely_[round.depth(slot)];
  Backend& backend = round.backend();
  if (kind_ == HeadKind::kMedusa) {
    if (!likely.empty()) return likely;
  } else if (is_layer(kind_)) {
    for (; seen_ < slot; ++seen_) backend.exit_check(head_, seen_, 1);
    seen_ = slot + 1;
  }
  const ExitPeak peak = backend.exit_check(head_, slot, 1);
  const SamplingParams& sampling = round.sampler().params();
  likeliest_tokens(backend.exit_logits(), backend.exit_ids(), sampling, round.place(slot),
                   kSiblings, likely);
  if (sampling.temperature == 0 &&
      !likely.empty()) {  // shares of the whole softmax, as in the papers
    const double whole = peak.confidence / likely[0].share;
    for (LikelyToken& one : likely) one.share *= whole;
  }
  round.ran_beside();
  round.checked(0, likely.empty() ? 0 : peak.confidence);
  return likely;
}

// What may follow the newest row waits; the row is right with chance `right`. False when aborted.
bool HeadTree::expand(Round& round, double right) {
  const int slot = round.newest();
  if (round.full() || round.depth(slot) >= levels_) return true;
  if (round.aborted()) return false;
  for (const auto& [token, share] : ask(round)) {
    waiting_.push_back({slot, token, right * share, came_++});
    std::ranges::push_heap(waiting_, kAfter);
  }
  return true;
}

DraftEnd HeadTree::draft(Round& round) {
  if (is_by_place(kind_) && !has_state_) return DraftEnd::kPlain;
  for (std::vector<LikelyToken>& likely : likely_) likely.clear();
  waiting_.clear();
  came_ = seen_ = 0;
  if (!expand(round, 1)) return DraftEnd::kAborted;
  while (!round.full() && !waiting_.empty()) {
    std::ranges::pop_heap(waiting_, kAfter);
    const Candidate best = waiting_.back();
    waiting_.pop_back();
    if (round.would_end(best.parent, best.token)) continue;
    round.append_to(best.parent, best.token, 0);
    if (!expand(round, best.right)) return DraftEnd::kAborted;
  }
  return DraftEnd::kWidth;
}

void HeadTree::accept(Backend& backend, const RoundEvent& round) {
  if (!is_by_place(kind_)) return;
  backend.keep_state(round.tokens.back().slot);
  has_state_ = true;
}

}  // namespace specbound
