// All sources of drafts in one tree, filled best first: the candidate whose whole path is likeliest
// to be right takes the next row, while what it is expected to bring is more than what a row costs.
// Free candidates wait for rows (candidates.h); exit heads or a draft model are asked about the
// rows of one path, from the root on, where what their answer may bring is more than what it takes.
// docs/architecture.md 3.4, 3.5; OPT-Tree (arXiv:2406.17276) fills its trees by the same measure.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "drafters/asking.h"
#include "drafters/candidates.h"
#include "drafters/guesser.h"
#include "drafters/row_budget.h"
#include "drafters/shared_tree.h"

namespace specbound {

class TreeSpeculator final : public Speculator {
 public:
  // `guesser`, `memory`, of replies to other texts, and `store` must outlive it; nullptr: none.
  // Rounds have up to w_max rows, 1..kMaxRows. Without `measured` rows are taken for free and the
  // round is filled; the guesser then drafts first, by its own rule and within its own bounds.
  TreeSpeculator(Guesser* guesser, LookupMemory* memory, int w_max, bool measured,
                 const Datastore* store = nullptr);
  void set_width(int w_max);
  // The guesser's settings are others now. `own_rule`: it drafts by them, as without `measured`.
  void set_guesser(Guesser* guesser, bool own_rule);
  const Guesser* guesser() const { return guesser_; }
  // What passes cost; assumed_row_costs() until then.
  void set_costs(const RowCosts& costs);
  const LearnedRowCosts& costs() const { return budget_.costs(); }
  const Caution& caution() const { return caution_; }  // of the reply that is alone
  // What candidates are judged by before texts correct it; CandidateOdds::shipped() until then.
  void set_odds(const CandidateOdds::Weights& odds) { belief_.set_odds(odds); }

  // Whether what a grammar forces is a candidate (on): for comparison, as what it forbids is none.
  void draft_forced(bool on);
  // Whether a row may have several behind it (on): for comparison.
  void draft_siblings(bool on);

  void set_observer(Belief::Observer observer) { belief_.set_observer(std::move(observer)); }

  const char* name() const override { return "auto"; }
  int width() const override { return w_max_; }
  Control control() const override { return control_; }
  // Its free candidates; a guesser runs layers.
  SharedDrafter* shared() override;

  void forget() override;
  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  // An answer of the guesser about a row, and the likeliest token behind that, without it and with.
  struct Answer {
    int parent, stage;
    double best;  // the chance of the token before
    int32_t before, after;
    bool before_pays;  // a row would have been spent on the one before
    double right;      // the chance of the one after, with all before it
    double row;        // what a row costs, in tokens
  };
  bool follow(Round& round);
  bool ask(Round& round, double path);
  bool take(Round& round, const Candidate& best);
  std::optional<double> worth(const RoundEvent& round, const Answer& answer,
                              const TokenEvent& token) const;
  double guesser_time(const RoundEvent& round) const;

  Guesser* guesser_ = nullptr;
  int w_max_;
  bool measured_, own_rule_;
  Belief belief_;
  Candidates candidates_;
  RowBudget budget_;
  Caution caution_;  // of the reply that is alone
  SharedTree shared_;
  Asking asking_;
  int answers_in_reply_ = 0;  // of the guesser in this reply
  double own_right_ = 0.7;    // how often drafts by its own rule are right
  Control control_;

  // Of the round under way.
  std::vector<Answer> answers_;
  int kept_ = 0;      // the last slot that is worth its cost
  int own_rows_ = 1;  // that the guesser drafted by its own rule, the root too
};

}  // namespace specbound
