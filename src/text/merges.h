// Byte-pair merging: which pairs merge, and merging a run of symbols.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/gguf.h"
#include "text/vocabulary.h"

namespace specbound {

// The merges of a byte-level BPE vocabulary, as GGUF files hold them:
//
//   tokenizer.ggml.merges   strings "LEFT RIGHT", both tokens; their joined text is a token too.
//                           The place in the list is the rank: the first merges first.
//
// Like HF tokenizers (models/bpe/builder), and unlike llama.cpp, which looks at texts only, a
// merge of or into something that is no token is refused. Two equal merges are refused as well:
// the references do not agree on which of them counts.
class MergePairs {
 public:
  struct Merge {
    uint32_t rank;
    int32_t token;  // what the pair becomes
  };

  // Merges that would make a control or unknown token are left out: text stays text.
  // Throws Error(kFormat).
  MergePairs(const Gguf& gguf, const Vocabulary& vocabulary);

  // Null where the two do not merge.
  const Merge* find(int32_t left, int32_t right) const {
    const uint64_t key = pair(left, right);
    size_t i = slot(key);
    for (int n = 0; n < kMostProbes; ++n, i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].merge;
      if (slots_[i].key == kFree) return nullptr;
    }
    return nullptr;
  }

 private:
  // Open addressing over one array, since merging asks it millions of times.
  struct Slot {
    uint64_t key;  // left, right
    Merge merge;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};  // tokens are not negative

  static uint64_t pair(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u >> 32) & mask_; }

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
  size_t mask_;
};

// The merging that all BPE tokenizers share: in a run of symbols the adjacent pair of the lowest
// rank becomes one symbol, the leftmost of equals first, until no pair can be merged. A list and a
// heap, so that a run of n symbols takes n log n, however long it is.
//
// The heap holds (rank, left symbol) in one integer, whose order is the order of merging. Entries
// are not removed: one is out of date when the pair that begins at its symbol has another rank by
// now.
class MergeRun {
 public:
  struct Symbol {
    uint32_t begin;
    uint32_t size;  // 0: merged into the one before
    int32_t prev, next;
    int32_t token;  // what the symbol is; -1: no token
    int32_t pair;   // the token this and the next symbol would make; -1: none
    uint32_t rank;  // of that pair
  };
  // Offsets and indices are 32 bits wide. What is cut here is no text that anyone reads.
  static constexpr size_t kMaxSize = size_t{1} << 30;

  bool empty() const { return symbols_.empty(); }
  size_t size() const { return size_; }  // bytes of all symbols
  void clear() {
    symbols_.clear();
    size_ = 0;
  }

  void add(size_t size, int32_t token) {
    const auto index = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({static_cast<uint32_t>(size_), static_cast<uint32_t>(size), index - 1,
                        index + 1, token, -1, 0});
    size_ += size;
  }

  // `find_pair(left, right)` says what two neighbours make: sets left.pair (-1: nothing) and
  // left.rank.
  template <typename FindPair>
  void merge(FindPair&& find_pair) {
    if (symbols_.empty()) return;
    const auto n = static_cast<int32_t>(symbols_.size());
    symbols_.back().next = -1;
    heap_.clear();
    const auto pair_up = [&](int32_t i) {
      Symbol& left = symbols_[i];
      left.pair = -1;
      if (left.next >= 0) find_pair(left, symbols_[left.next]);
      if (left.pair >= 0) heap_.push_back(key(i));
      return left.pair >= 0;
    };
    for (int32_t i = 0; i + 1 < n; ++i) pair_up(i);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto push = [&](int32_t i) {
      if (pair_up(i)) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    };
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint64_t top = heap_.back();
      heap_.pop_back();
      const auto i = static_cast<int32_t>(static_cast<uint32_t>(top));
      Symbol& left = symbols_[i];
      if (left.size == 0 || left.pair < 0 || key(i) != top) continue;
      Symbol& right = symbols_[left.next];
      left.size += right.size;
      left.token = left.pair;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) symbols_[left.next].prev = i;
      push(i);
      if (left.prev >= 0) push(left.prev);
    }
  }

  // The symbols that are left after merge(), in order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    if (symbols_.empty()) return;
    for (int32_t i = 0; i >= 0; i = symbols_[i].next) visit(symbols_[i]);
  }

 private:
  uint64_t key(int32_t i) const {
    return uint64_t{symbols_[i].rank} << 32 | static_cast<uint32_t>(i);
  }

  size_t size_ = 0;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;  // smallest on top
};

}  // namespace specbound
