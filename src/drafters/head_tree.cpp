#include "drafters/head_tree.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "error.h"

namespace specbound {

namespace {

// Of candidates: which one waits longer.
constexpr auto kAfter = [](const auto& a, const auto& b) {
  return a.weight != b.weight ? a.weight < b.weight : a.number > b.number;
};

// A place of a fixed tree: behind which other one, and the how-manieth of the likeliest there.
struct Place {
  int parent, rank;
};
// Those of Medusa's tree of 63 (mc_sim_7b_63 of the authors' code) that there are rows for, in the
// order of what each adds there.
constexpr Place kFixedTree[] = {{-1, 0}, {0, 0}, {-1, 1}, {0, 1}, {-1, 2}, {1, 0}, {2, 0}, {0, 2},
                                {-1, 3}, {0, 3}, {-1, 4}, {0, 4}, {4, 0},  {0, 5}, {1, 1}};
static_assert(std::size(kFixedTree) == kMaxRows - 1);
constexpr int kFixedLevels = 3;

// Behind place `parent` that of rank `rank`; nullopt: none.
std::optional<int> fixed_place(int parent, int rank) {
  const auto found = std::ranges::find_if(
      kFixedTree, [&](const Place& place) { return place.parent == parent && place.rank == rank; });
  if (found == std::end(kFixedTree)) return std::nullopt;
  return static_cast<int>(found - std::begin(kFixedTree));
}

}  // namespace

HeadTree::HeadTree(const ExitHeads& heads, HeadKind kind, int w_max, const Rules& rules)
    : kind_(kind),
      head_(heads.find(kind, 0)),
      levels_(is_layer(kind) ? kEagleLevels
              : head_ < 0    ? 0
                             : std::min(static_cast<int>(heads.heads()[head_].medusa.size()),
                                     rules.fixed ? kFixedLevels : kMaxRows)),
      w_max_(w_max),
      rules_(rules) {
  SB_CHECK(is_published(kind) && head_ >= 0);
  SB_CHECK(is_by_place(kind) || !(rules.fixed || rules.typical));
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
  static const SamplingParams greedy = greedy_sampling();
  const SamplingParams& sampling = rules_.typical ? greedy : round.sampler().params();
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

// What may follow the newest row, which was candidate `row`, waits. False when aborted.
bool HeadTree::expand(Round& round, const Candidate& row) {
  const int slot = round.newest();
  if (round.full() || round.depth(slot) >= levels_) return true;
  if (rules_.fixed && !fixed_place(row.place, 0)) return true;
  if (round.aborted()) return false;
  const std::span<const LikelyToken> likely = ask(round);
  for (size_t rank = 0; rank < likely.size(); ++rank) {
    Candidate next{slot, likely[rank].token, row.weight * likely[rank].share, came_++};
    if (rules_.fixed) {
      const std::optional<int> place = fixed_place(row.place, static_cast<int>(rank));
      if (!place) break;  // a place's ranks go from 0 on
      next.place = *place;
      next.weight = -*place;
    }
    waiting_.push_back(next);
    std::ranges::push_heap(waiting_, kAfter);
  }
  return true;
}

DraftEnd HeadTree::draft(Round& round) {
  if (is_by_place(kind_) && !has_state_) return DraftEnd::kPlain;
  for (std::vector<LikelyToken>& likely : likely_) likely.clear();
  waiting_.clear();
  came_ = seen_ = 0;
  if (rules_.typical && round.sampler().params().temperature > 0) round.accept_typical();
  if (!expand(round, {.weight = 1})) return DraftEnd::kAborted;
  while (!round.full() && !waiting_.empty()) {
    std::ranges::pop_heap(waiting_, kAfter);
    const Candidate best = waiting_.back();
    waiting_.pop_back();
    if (round.would_end(best.parent, best.token)) continue;
    round.append_to(best.parent, best.token, 0);
    if (!expand(round, best)) return DraftEnd::kAborted;
  }
  return DraftEnd::kWidth;
}

void HeadTree::accept(Backend& backend, const RoundEvent& round) {
  if (!is_by_place(kind_)) return;
  backend.keep_state(round.tokens.back().slot);
  has_state_ = true;
}

}  // namespace specbound
