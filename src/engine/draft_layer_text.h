// What a draft layer (is_layer() of HeadKind) knows of the text that its model runs, by place, for
// every engine that runs one: tokens, which of them have a state, and how far K and V of its block
// hold. docs/architecture.md 6.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/row_paths.h"
#include "error.h"

namespace specbound {

class DraftLayerText {
 public:
  // `behind`: of DraftLayerForm.
  DraftLayerText(int n_ctx, int behind) : behind_(behind), tokens_(n_ctx) {}

  int32_t token(int pos) const { return tokens_[static_cast<size_t>(pos)]; }
  // The first place with a state; what came before the layer was attached has none.
  int first() const { return first_; }
  // Whether `pos` goes on with what is known, or begins it.
  bool reaches(int pos) const { return pos >= first_ && pos <= end_; }
  // Where the block's text begins for a root at `root`, which the text reaches: a published layer's
  // with the first token that has a state before it. A root without one is looked at all the same,
  // alone.
  int origin(int root) const { return root > first_ ? first_ + behind_ : first_; }
  // Places of the block, which begin at the origin, that hold K and V of true states.
  int valid() const { return valid_; }

  // Nothing is known of what stands before `pos`.
  void begin_at(int pos) {
    first_ = end_ = pos;
    valid_ = 0;
  }
  // Rows of `tokens` from `pos` on, which the text reaches, got their states.
  void ran(int pos, std::span<const int32_t> tokens) {
    SB_CHECK(reaches(pos));
    std::ranges::copy(tokens, tokens_.begin() + pos);
    // Behind a truncate() that is taken back the others are still there.
    end_ = std::max(end_, pos + static_cast<int>(tokens.size()));
    valid_ = std::max(0, std::min(valid_, pos - first_ - behind_));
  }
  // As Backend::keep_path().
  void keep_path(int pos, const RowPath& path) {
    for (int d = 1; d <= path.depth; ++d) tokens_[pos + d] = tokens_[pos + path.slots[d]];
  }

  // A root is to be looked at: the block's K and V from there on are of other rows.
  void begin_root(int root) {
    SB_CHECK(reaches(root));
    valid_ = std::min(valid_, root - origin(root));
  }
  // So many places more went through the block.
  void caught_up(int n) { valid_ += n; }
  // The root did too, and all before it.
  void end_root(int root) {
    const bool alone = root == first_ && behind_ > 0;
    valid_ = alone ? 0 : root - origin(root) + 1;
  }

 private:
  const int behind_;
  std::vector<int32_t> tokens_;  // [place]
  // Places [first_, end_) have a state. An adapter's root has one too.
  int first_ = 0, end_ = 0;
  int valid_ = 0;
};

}  // namespace specbound
