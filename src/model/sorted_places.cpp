#include "model/sorted_places.h"

#include <functional>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

using Places = std::vector<uint32_t>;

// Places between two words of progress: a fraction of a second.
constexpr size_t kPart = size_t{1} << 20;

constexpr int doublings() {
  int n = 0;
  for (int sorted = 1; sorted < kSortedTokens; sorted *= 2) ++n;
  return n;
}

// Where the tokens that a place begins with come first in the order; equal for those that are
// alike so far. What takes long is to go to places in another order than theirs: each part of that
// is told.
class Sorting {
 public:
  Sorting(std::span<const int32_t> tokens, int vocab_size, std::function<void()> part)
      : part_(std::move(part)),
        order_(tokens.size()),
        rank_(tokens.size()),
        next_(tokens.size()),
        other_(tokens.size()) {
    Places first(static_cast<size_t>(vocab_size) + 2);
    for (const int32_t token : tokens) ++first[static_cast<size_t>(token + 2)];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    for (size_t i = 0; i < tokens.size(); ++i) {
      rank_[i] = first[static_cast<size_t>(tokens[i] + 1)];
      other_[i] = static_cast<uint32_t>(i);
    }
    sort_by_rank();
  }

  // Sorted by h tokens, from now on by 2 h.
  void double_to(size_t h) {
    // The places by what stands h behind them: first those with nothing there.
    const size_t n = order_.size();
    size_t filled = 0;
    for (size_t i = n > h ? n - h : 0; i < n; ++i) other_[filled++] = static_cast<uint32_t>(i);
    for (const uint32_t place : order_) {
      if (place >= h) other_[filled++] = static_cast<uint32_t>(place - h);
    }
    sort_by_rank();
    // Those alike in both halves share a rank.
    Places& rank = other_;
    for (size_t i = 0; i < n; ++i) {
      if (i % kPart == 0) part_();
      const bool same = i > 0 && rank_[order_[i]] == rank_[order_[i - 1]] &&
                        behind(order_[i], h) == behind(order_[i - 1], h);
      rank[order_[i]] = same ? rank[order_[i - 1]] : static_cast<uint32_t>(i);
    }
    std::swap(rank_, other_);
  }

  Places take() { return std::move(order_); }

 private:
  // other_ by rank, in its order where ranks are equal.
  void sort_by_rank() {
    for (size_t i = 0; i < next_.size(); ++i) next_[i] = static_cast<uint32_t>(i);
    for (size_t i = 0; i < other_.size(); ++i) {
      if (i % kPart == 0) part_();
      order_[next_[rank_[other_[i]]]++] = other_[i];
    }
  }
  int64_t behind(uint32_t place, size_t h) const {
    return place + h < rank_.size() ? int64_t{rank_[place + h]} : -1;
  }

  const std::function<void()> part_;
  Places order_, rank_, next_, other_;
};

}  // namespace

std::vector<uint32_t> sorted_places(std::span<const int32_t> tokens, int vocab_size,
                                    const std::function<void(int done, int total)>& progress) {
  SB_CHECK(tokens.size() < (uint64_t{1} << 32));
  // Each doubling sorts and then ranks.
  const size_t parts = (tokens.size() + kPart - 1) / kPart * (2 * doublings() + 1);
  int done = 0;
  const auto part = [&] {
    if (progress) progress(done++, static_cast<int>(parts));
  };
  Sorting sorting(tokens, vocab_size, part);
  for (int h = 1; h < kSortedTokens; h *= 2) sorting.double_to(static_cast<size_t>(h));
  part();
  return sorting.take();
}

}  // namespace specbound
