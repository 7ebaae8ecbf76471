#include "drafters/space.h"

#include <utility>

#include "error.h"

namespace specbound {
namespace {

// As many as fit behind each of so many drafts and the root.
int fitting(int count, int width) {
  int k = count;
  while (k > 0 && (k + 1) * (k + 1) > width) --k;
  return k;
}

}  // namespace

Space::Space(const MaskTokens& masks, int w_max)
    : masks_(masks), w_max_(w_max), k_(fitting(masks.count, w_max)) {
  SB_CHECK(masks.count >= 1 && w_max >= 1 && w_max <= kMaxRows);
}

// A round that was broken off has left masks that nothing is said behind.
void Space::begin(std::span<const int32_t>) {
  groups_.fill({});
  guesses_ = 0;
}

void Space::append_masks(Round& round, int row) {
  Group& group = groups_[row];
  for (int parent = row; group.count < k_ && !round.full(); ++group.count) {
    parent = round.append_mask(parent, masks_, group.count);
    if (group.count == 0) group.first = parent;
  }
}

// Guesses are drawn as their targets will be, with the noise of their places.
DraftEnd Space::draft(Round& round) {
  const auto vocab_size = static_cast<size_t>(round.backend().config().vocab_size);
  groups_.fill({});
  DraftEnd end = DraftEnd::kWidth;
  for (int i = 0; i < guesses_ && !round.full(); ++i) {
    const int32_t token =
        round.draw(std::span(z_).subspan(static_cast<size_t>(i) * vocab_size, vocab_size));
    if (round.would_end(token)) {
      end = DraftEnd::kReplyEnd;
      break;
    }
    round.append(token, 0);
  }
  if (round.aborted()) return DraftEnd::kAborted;
  // Where rows are few, at the end of a reply, those behind the last drafts are left out.
  for (int row = 0, last = round.newest(); row <= last; ++row) append_masks(round, row);
  return end;
}

void Space::accept(Backend& backend, const RoundEvent& round) {
  // A plain round has no masks: nothing is guessed behind it.
  const Group group = std::exchange(groups_, {})[round.tokens.back().slot];
  guesses_ = group.count;
  if (guesses_ == 0) return;
  z_.resize(static_cast<size_t>(guesses_) * static_cast<size_t>(backend.config().vocab_size));
  backend.logits(group.first, guesses_, z_.data());
}

}  // namespace specbound
