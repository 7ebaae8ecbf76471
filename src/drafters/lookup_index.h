// Lookup in a text that grows at its end: where its last tokens stood before, and what came behind
// them. The longest matches first, several continuations. No model, no training; prompt lookup
// (https://github.com/apoorvumang/prompt-lookup-decoding) with more than one answer.
//
// Hash chains, as LZ77 compressors find their matches: for a few lengths of context the newest
// place of each context, and from each place the one before it with the same context. A constant
// number of places is looked at, so a token costs the same in long texts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace specbound {

// One token that came behind the context, of the places that were looked at.
struct Continuation {
  int32_t token = 0;
  int length = 0;  // of the longest context that it came behind, 1..LookupIndex::kLongest
  int count = 0;   // places of that order at which it came
  int total = 0;   // places of that order
};

class LookupIndex {
 public:
  static constexpr int kLongest = 32;  // longer matches are alike
  static constexpr int kMost = 4;      // continuations of one context
  // Contexts are told apart by their last 1, 2 and 4 tokens; longer matches are among those of 4.
  static constexpr std::array<int, 3> kOrders = {4, 2, 1};

  // From here on the text is this one. Where it begins with all of the old one, only the rest is
  // read.
  void assign(std::span<const int32_t> text);
  void push(int32_t token);
  std::span<const int32_t> text() const { return text_; }

  // Continuations of `context`, which begins with this text or ends like parts of it: those behind
  // the longest matches first, of as long ones the more frequent. Returns how many.
  int find(std::span<const int32_t> context, std::array<Continuation, kMost>& found) const;

 private:
  static constexpr std::array<int, 3> kPlaces = {24, 12, 12};  // of an order that are looked at

  static uint32_t hash(std::span<const int32_t> context);
  void append(std::span<const int32_t> tokens);
  void link(size_t order, size_t first);
  bool make_room();
  int match(std::span<const int32_t> context, int place) const;

  std::vector<int32_t> text_;
  struct Chain {
    std::vector<int32_t> newest;  // [hash]: place behind the newest such context; 0: none
    std::vector<int32_t> before;  // [place]: the one before it
  };
  std::array<Chain, kOrders.size()> chains_;
};

}  // namespace specbound
