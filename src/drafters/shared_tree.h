// Free candidates of several replies in one pass: the row goes to whichever reply's candidate is
// likeliest to be right with all before it, by how cautious that reply is, while what it is
// expected to bring is more than what it adds to the pass. Where nothing pays nothing is looked up.
// docs/architecture.md 3.6.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/shared_drafter.h"
#include "drafters/candidates.h"
#include "drafters/row_budget.h"

namespace specbound {

class SharedTree final : public SharedDrafter {
 public:
  // As for TreeSpeculator, which judges by the same belief.
  SharedTree(Belief& belief, LookupMemory* memory, const Datastore* store, bool measured)
      : belief_(belief), memory_(memory), store_(store), budget_(measured) {}
  void set_width(int w_max) { w_max_ = w_max; }  // rows of a reply's round
  void draft_forced(bool on) { drafts_forced_ = on; }
  void draft_siblings(bool on) { drafts_siblings_ = on; }
  // What rounds of a reply alone have taught: to say what a row more costs, passes have to be of
  // many sizes.
  void set_costs(const RowCosts& costs) { budget_.set_costs(costs); }

  // A reply is cautious by what it has gained itself, and stays so where it goes from alone into
  // company and back: whoever has drafted for the reply of this text does so no longer.
  void left(std::span<const int32_t> text, const Caution& caution);
  // Of the reply whose text so far that is: that of who left it last, or a new one's.
  Caution caution_of(std::span<const int32_t> text) const;

  std::unique_ptr<Text> begin(std::span<const int32_t> text) override;
  void draft(std::span<const Reply> replies, int room) override;
  void accept(Text& text, const RoundEvent& round) override;
  void end_pass() override;

 private:
  class Drafts;  // of a text

  Belief& belief_;
  LookupMemory* memory_;
  const Datastore* store_;
  int w_max_ = kMaxRows;
  bool drafts_forced_ = true, drafts_siblings_ = true;
  RowBudget budget_;
  std::vector<int32_t> left_text_;
  Caution left_caution_;

  // Of the pass under way.
  int plain_ = 0, rows_ = 0, pos_ = 0, tokens_ = 0;
};

}  // namespace specbound
