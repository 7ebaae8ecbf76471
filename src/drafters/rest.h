// REST, retrieval-based speculative decoding (He et al. 2023, arXiv 2311.08252): drafts what came
// behind the last tokens in a datastore of texts (model/datastore.h). No model, no training. As in
// the paper the longest end of the text, of 16 tokens down to 2, that stands in the datastore is
// what counts; what came behind it there is a trie, whose most frequent nodes are the rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/speculator.h"
#include "model/datastore.h"

namespace specbound {

class Rest final : public Speculator {
 public:
  static constexpr int kLongest = 16, kShortest = 2;  // contexts, in tokens
  // Places of a context that are counted: of more, so many evenly through their order, which is
  // that of what is behind them. The authors' code takes the first 5000.
  static constexpr size_t kMostPlaces = 4096;

  // `store` must outlive it; 1 <= w_max <= kMaxRows.
  Rest(const Datastore& store, int w_max) : store_(store), w_max_(w_max) {}

  const char* name() const override { return "rest"; }
  int width() const override { return w_max_; }
  const Datastore& store() const { return store_; }
  DraftEnd draft(Round& round) override;

 private:
  // Places [begin, end) of places_, which have the same `depth` tokens behind the context.
  struct Node {
    size_t begin, end;
    int depth;
    int parent;  // row
    int32_t token;
    int found;  // as which one
  };
  static bool later(const Node& a, const Node& b);
  void open(const Node& node, int row);

  const Datastore& store_;
  int w_max_;
  int length_ = 0;                // of the context that was found
  std::vector<uint32_t> places_;  // of it
  std::vector<Node> waiting_;     // a heap
  int found_ = 0;
};

}  // namespace specbound
