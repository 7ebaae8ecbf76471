#include "drafters/ngram.h"

#include <algorithm>

#include "drafters/run_hash.h"
#include "error.h"

namespace specbound {
namespace {

// Runs of all lengths stand in one table.
uint64_t key(std::span<const int32_t> run) {
  return run_hash(run, run.size());
}

}  // namespace

void NgramIndex::assign(std::span<const int32_t> text) {
  const bool goes_on =
      text.size() >= text_.size() && std::equal(text_.begin(), text_.end(), text.begin());
  if (!goes_on) {
    text_.clear();
    behind_.clear();
  }
  for (size_t i = text_.size(); i < text.size(); ++i) push(text[i]);
}

void NgramIndex::push(int32_t token) {
  const int place = static_cast<int>(text_.size());
  for (int n = 1; n <= std::min(n_max_, place); ++n) behind_[key(std::span(text_).last(n))] = place;
  text_.push_back(token);
}

int NgramIndex::find(std::span<const int32_t> text) const {
  for (int n = std::min(n_max_, static_cast<int>(text.size())); n >= 1; --n) {
    const std::span<const int32_t> run = text.last(n);
    const auto found = behind_.find(key(run));
    if (found == behind_.end()) continue;
    const int place = found->second;
    if (place >= n && std::equal(run.begin(), run.end(), text_.begin() + (place - n))) {
      return place;
    }
  }
  return -1;
}

DraftEnd draft_from(Round& round, int place, int most) {
  for (; !round.full() && most > 0; --most) {
    const int32_t token = round.history(round.newest())[place++];
    if (round.would_end(token)) return DraftEnd::kReplyEnd;
    round.append(token, 0);
  }
  return DraftEnd::kWidth;
}

DraftEnd NgramSpeculator::draft(Round& round) {
  SB_CHECK(static_cast<int>(index_.text().size()) == round.pos() + 1);
  const int place = index_.find();
  return place < 0 ? DraftEnd::kDifficult : draft_from(round, place);
}

void NgramSpeculator::accept(Backend&, const RoundEvent& round) {
  for (const TokenEvent& event : round.tokens) index_.push(event.token);
}

}  // namespace specbound
