#include "drafters/rest.h"

#include <algorithm>

#include "model/sorted_places.h"

namespace specbound {

// What is behind each place is in order as far as a draft goes.
static_assert(Rest::kLongest + kMaxRows <= kSortedTokens);

// The more frequent come first, then the nearer, then those found before.
bool Rest::later(const Node& a, const Node& b) {
  const size_t count = a.end - a.begin, other = b.end - b.begin;
  if (count != other) return count < other;
  return a.depth != b.depth ? a.depth > b.depth : a.found > b.found;
}

// What comes behind `node`, whose row is `row`, waits to be drafted.
void Rest::open(const Node& node, int row) {
  const auto token = [&](size_t i) {
    return store_.behind(places_[i], static_cast<size_t>(length_ + node.depth));
  };
  for (size_t begin = node.begin; begin < node.end;) {
    const int32_t next = token(begin);
    size_t end = begin + 1;
    while (end < node.end && token(end) == next) ++end;
    if (next != Datastore::kBetween) {
      waiting_.push_back({begin, end, node.depth + 1, row, next, found_++});
      std::push_heap(waiting_.begin(), waiting_.end(), later);
    }
    begin = end;
  }
}

DraftEnd Rest::draft(Round& round) {
  const Datastore::Match match = store_.longest(round.history(0), kShortest, kLongest);
  if (match.length == 0) return DraftEnd::kDifficult;
  length_ = match.length;
  const size_t n = std::min(match.places.size(), kMostPlaces);
  places_.resize(n);
  for (size_t i = 0; i < n; ++i) places_[i] = match.places[i * match.places.size() / n];
  waiting_.clear();
  found_ = 0;
  open({0, n, 0, -1, 0, 0}, 0);
  while (!round.full() && !waiting_.empty()) {
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    const Node node = waiting_.back();
    waiting_.pop_back();
    // A file whose places are in no order names a token behind a row more than once.
    if (round.child(node.parent, node.token) >= 0) continue;
    if (round.would_end(node.parent, node.token)) continue;
    round.append_to(node.parent, node.token, 0);
    open(node, round.newest());
  }
  return round.rows() > 1 ? DraftEnd::kWidth : DraftEnd::kDifficult;
}

}  // namespace specbound
