// SPACE (Yi et al., arXiv 2402.11809): guessing and verifying in one pass. Behind the root and
// behind each draft of a round stand k rows that mean tokens to come (mask tokens); what the model
// says behind number i of them is a guess of the token i places behind the next one. Those behind
// the last row that was right are the drafts of the next round, so a round of 1 + k drafts has up
// to (k + 1)^2 rows. The paper trains the model to fill such rows in; where it has not been, their
// embeddings alone can be learnt (models/make_space_masks.py), which leaves its text what it was.
// docs/architecture.md 3.5.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "decode/speculator.h"
#include "model/exit_heads.h"

namespace specbound {

class Space final : public Speculator {
 public:
  // `masks`: one or more, which outlive it. Rounds have up to w_max rows, 1..kMaxRows.
  Space(const MaskTokens& masks, int w_max);

  const char* name() const override { return "space"; }
  int width() const override { return w_max_; }
  const MaskTokens& masks() const { return masks_; }
  int drafts() const { return k_; }  // of a round at most, and masks behind each of its rows

  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  void append_masks(Round& round, int row);

  // Of masks behind a row, the slots that they have in the round under way.
  struct Group {
    int first = 0, count = 0;
  };

  const MaskTokens masks_;
  const int w_max_, k_;
  std::array<Group, kMaxRows> groups_;  // [slot of a draft, or the root]
  int guesses_ = 0;                     // of the next round's drafts
  std::vector<float> z_;                // (guesses_, vocab_size): what they are drawn by
};

}  // namespace specbound
