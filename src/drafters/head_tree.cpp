#include "drafters/head_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error.h"

namespace specbound {

namespace {

// Of candidates: which one waits longer.
constexpr auto kAfter = [](const auto& a, const auto& b) {
  return a.right != b.right ? a.right < b.right : a.number > b.number;
};

}  // namespace

void likeliest_tokens(std::span<const float> z, int n, double likeliest,
                      std::vector<LikelyToken>& out) {
  out.clear();
  // Those found so far, best first: n is small, and hardly a token gets past the last of them.
  float least = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < z.size(); ++i) {
    if (!(z[i] > least)) continue;
    const auto place = std::ranges::find_if(out, [&](const auto& one) { return z[i] > one.share; });
    out.insert(place, {static_cast<int32_t>(i), z[i]});
    if (static_cast<int>(out.size()) > n) out.pop_back();
    if (static_cast<int>(out.size()) == n) least = z[out.back().token];
  }
  if (out.empty()) return;
  const double highest = out.front().share;
  if (std::isinf(highest)) return out.clear();
  for (LikelyToken& one : out) one.share = std::exp(one.share - highest) * likeliest;
}

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
  likeliest_tokens(backend.exit_logits(), kSiblings, peak.confidence, likely);
  if (const std::span<const int32_t> ids = backend.exit_ids(); !ids.empty()) {
    for (LikelyToken& one : likely) one.token = ids[static_cast<size_t>(one.token)];
  }
  round.ran_beside();
  round.checked(0, likely.empty() ? 0 : static_cast<float>(likely[0].share));
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
