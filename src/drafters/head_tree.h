// A published draft head alone, as its paper runs it: a tree of the tokens that it holds for
// likeliest, whose rows are those of the highest joint confidence. For a medusa head (Medusa, arXiv
// 2401.10774) all paths share what it says of a place, so the tree is the product of its heads'
// candidates: the best of it, or the places that its authors fixed beforehand. An EAGLE layer
// (EAGLE-2, arXiv 2406.16858, and EAGLE-3) and Hydra's heads (arXiv 2402.05109) are asked about
// each row.
//
// Best first takes the rows that EAGLE-2 is left with after expanding level by level and ranking
// all: a child is never likelier than its parent. (Level by level reads the layer's weights fewer
// times, but asks about rows that are not taken.) Above temperature 0 the children of a row are the
// likeliest under the noise that the target is drawn with, or by themselves where the target takes
// whatever is typical. docs/architecture.md 6.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "decode/speculator.h"
#include "drafters/likely_tokens.h"
#include "model/exit_heads.h"

namespace specbound {

class HeadTree final : public Speculator {
 public:
  static constexpr int kSiblings = 10;    // that a row is followed by at most, as in both papers
  static constexpr int kEagleLevels = 6;  // the root's children and 5 levels behind them

  // What Medusa's paper has beside the best tree and the model's own text; for is_by_place() kinds.
  struct Rules {
    bool fixed = false;    // the first places of its fixed tree, whatever confidences are
    bool typical = false;  // drafts stay by decode/typical_acceptance.h, above temperature 0
  };

  // `kind`: one that was published, of which `heads` has one; the backend
  // must have been given the same file. Rounds have up to w_max rows, 1..kMaxRows.
  HeadTree(const ExitHeads& heads, HeadKind kind, int w_max, const Rules& rules);
  HeadTree(const ExitHeads& heads, HeadKind kind, int w_max)
      : HeadTree(heads, kind, w_max, Rules()) {}

  const char* name() const override { return head_kind_name(kind_); }
  bool decides_text() const override { return rules_.typical; }
  int width() const override { return w_max_; }
  int levels() const { return levels_; }
  const Rules& rules() const { return rules_; }
  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  struct Candidate {
    int parent = 0;
    int32_t token = 0;
    double weight = 0;  // the product of its path's shares; of a fixed tree less its place
    int number = 0;     // of those that came
    int place = kRoot;  // in the fixed tree
  };
  static constexpr int kRoot = -1;
  bool expand(Round& round, const Candidate& row);
  std::span<const LikelyToken> ask(Round& round);

  const HeadKind kind_;
  const int head_;    // index into ExitHeads::heads()
  const int levels_;  // rows behind the root on a path
  const int w_max_;
  const Rules rules_;
  bool has_state_ = false;  // the backend keeps one: keep_state()
  int seen_ = 0;            // slots of the round that an eagle head was asked about
  std::array<std::vector<LikelyToken>, kMaxRows> likely_;  // [depth]: behind a row, of this round
  std::vector<Candidate> waiting_;                         // a heap: the likeliest on top
  int came_ = 0;
};

}  // namespace specbound
