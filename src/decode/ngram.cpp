#include "decode/ngram.h"

#include <algorithm>

#include "error.h"

namespace specbound {

// Of the run text_[begin, end). Runs that share one are told apart by find().
uint64_t NgramIndex::key(int begin, int end) const {
  uint64_t hash = 0x2545f4914f6cdd1du * static_cast<uint64_t>(end - begin);
  for (int i = begin; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(text_[i])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

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
  for (int n = 1; n <= std::min(n_max_, place); ++n) behind_[key(place - n, place)] = place;
  text_.push_back(token);
}

int NgramIndex::find() const {
  const int size = static_cast<int>(text_.size());
  for (int n = std::min(n_max_, size); n >= 1; --n) {
    const auto found = behind_.find(key(size - n, size));
    if (found == behind_.end()) continue;
    const int place = found->second;
    if (place >= n && std::equal(text_.end() - n, text_.end(), text_.begin() + (place - n))) {
      return place;
    }
  }
  return -1;
}

DraftEnd NgramSpeculator::draft(Round& round) {
  SB_CHECK(static_cast<int>(index_.text().size()) == round.pos() + 1);
  int place = index_.find();
  if (place < 0) return DraftEnd::kDifficult;
  while (!round.full()) {
    // Behind the end of the text stand the drafts: what repeats itself goes on doing so.
    const int32_t token = round.history(round.newest())[place++];
    if (round.would_end(token)) return DraftEnd::kReplyEnd;
    round.append(token, 0);
  }
  return DraftEnd::kWidth;
}

void NgramSpeculator::accept(Backend&, const RoundEvent& round) {
  for (const TokenEvent& event : round.tokens) index_.push(event.token);
}

}  // namespace specbound
