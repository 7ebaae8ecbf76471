// All sources of drafts in one tree, filled best first: the candidate whose whole path is likeliest
// to be right takes the next row, while what it is expected to bring is more than what a row costs.
// Candidates come from the text itself (lookup); where the model has exit heads and the text is not
// sure, these draft first, and lookups stand beside and behind their rows.
// docs/architecture.md 3.4, 3.5; OPT-Tree (arXiv:2406.17276) fills its trees by the same measure.
#pragma once

#include <array>
#include <vector>

#include "decode/candidate_odds.h"
#include "decode/lookup.h"
#include "decode/row_costs.h"
#include "decode/specbound.h"

namespace specbound {

class TreeSpeculator final : public Speculator {
 public:
  // `first`, the exit heads that draft where lookup is unsure, and `memory`, of replies to other
  // texts, must outlive it; nullptr: none. Rounds have up to w_max rows, 1..kMaxRows, of which the
  // heads draft within their own bound. Without `measured` rows are taken for free and the round is
  // filled.
  TreeSpeculator(SpecBound* first, LookupMemory* memory, int w_max, bool measured);
  void set_width(int w_max) { w_max_ = w_max; }
  // What passes cost; assumed_row_costs() until then.
  void set_costs(const RowCosts& costs) { costs_ = costs; }

  const char* name() const override { return "auto"; }
  int width() const override { return w_max_; }
  Control control() const override { return first_ ? first_->control() : Control{}; }
  const SpecBound* first() const { return first_; }

  void forget() override;
  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  struct Candidate {
    int parent = 0;
    int32_t token = 0;
    double right = 0;  // the chance that it and all before it are
  };
  void look_up(const Round& round, int parent, double parent_right);
  double most_worth(const Round& round, double right) const;
  double cost(const Round& round, int more) const;
  double rate() const;
  double heads_seconds(const RoundEvent& round) const;

  SpecBound* first_;
  int w_max_;
  bool measured_;
  Lookup lookup_;
  CandidateOdds odds_;
  RowCosts costs_ = assumed_row_costs();
  double tokens_, time_;  // of rounds of late, in plain rounds; the rate begins at plain decoding's
  int64_t rounds_ = 0;

  // Of the round under way.
  std::vector<Candidate> candidates_;  // a heap by `right`
  std::vector<Lookup::Found> found_;   // scratch
  struct Seen {
    int parent;
    int32_t token;
    CandidateOdds::Features features;
  };
  std::vector<Seen> seen_;  // all that was looked up, drafted or not
};

}  // namespace specbound
