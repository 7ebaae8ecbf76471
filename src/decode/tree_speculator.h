// All sources of drafts in one tree, filled best first: the candidate whose whole path is likeliest
// to be right takes the next row, while what it is expected to bring is more than what a row costs.
// Free candidates come from the text itself (lookup), and from a grammar where it leaves hardly a
// choice; what it forbids is none. Exit heads or a draft model are asked about
// the rows of one path, from the root on, where what their answer may bring is more than what it
// takes. docs/architecture.md 3.4, 3.5; OPT-Tree (arXiv:2406.17276) fills its trees by the same
// measure.
#pragma once

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "decode/asking.h"
#include "decode/candidate_odds.h"
#include "decode/guesser.h"
#include "decode/lookup.h"
#include "decode/row_costs.h"

namespace specbound {

class TreeSpeculator final : public Speculator {
 public:
  // `guesser`, `memory`, of replies to other texts, and `store` must outlive it; nullptr: none.
  // Rounds have up to w_max rows, 1..kMaxRows. Without `measured` rows are taken for free and the
  // round is filled; the guesser then drafts first, by its own rule and within its own bounds.
  TreeSpeculator(Guesser* guesser, LookupMemory* memory, int w_max, bool measured,
                 const Datastore* store = nullptr);
  void set_width(int w_max) { w_max_ = w_max; }
  // The guesser's settings are others now. `own_rule`: it drafts by them, as without `measured`.
  void set_guesser(Guesser* guesser, bool own_rule);
  const Guesser* guesser() const { return guesser_; }
  // What passes cost; assumed_row_costs() until then.
  void set_costs(const RowCosts& costs) { costs_ = LearnedRowCosts(costs); }
  const LearnedRowCosts& costs() const { return costs_; }
  // What candidates are judged by before texts correct it; CandidateOdds::shipped() until then.
  void set_odds(const CandidateOdds::Weights& odds) { odds_ = CandidateOdds(odds); }

  // Whether what a grammar forces is a candidate (on): for comparison, as what it forbids is none.
  void draft_forced(bool on) { drafts_forced_ = on; }

  // Is told all that the odds learn from.
  using Observer = std::function<void(const CandidateOdds::Features&, bool right)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  const char* name() const override { return "auto"; }
  int width() const override { return w_max_; }
  Control control() const override { return control_; }

  void forget() override;
  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  struct Candidate {
    int parent = 0;
    int32_t token = 0;
    double right = 0;  // the chance that it and all before it are
    int drafted_at = 0;
  };
  // What was said of the token behind a row, drafted or not.
  struct Said {
    int parent;
    int32_t token;
    CandidateOdds::Features features;
    int layer;  // where it was guessed; 0: none
    TokenGrammar::Forced::Kind forced = TokenGrammar::Forced::Kind::kNone;
    bool masked = false;  // a grammar forbids what the guesser holds for likeliest here
  };
  // An answer of the guesser about a row, and the likeliest token behind that, without it and with.
  struct Answer {
    int parent, stage;
    double best;  // the chance of the token before
    int32_t before, after;
    bool before_pays;  // a row would have been spent on it
    double row;        // what one costs, in tokens
  };
  void look_up(const Round& round, int parent);
  void wait(int parent, double path);
  bool follow(Round& round);
  bool ask(Round& round, double path);
  void hear(const Round& round, const Guesser::Guess& guess);
  const Said* likeliest() const;
  double chance(const Said& said) const;
  void learn(const Said& said, bool right);
  bool take(Round& round, const Candidate& best);
  double most_worth(const Round& round, double right) const;
  double cost(const Round& round, int more) const;
  double margin() const;
  double rate() const;
  double worth(const RoundEvent& round, const Answer& answer, const TokenEvent& token) const;
  double guesser_time(const RoundEvent& round) const;

  Guesser* guesser_ = nullptr;
  int w_max_;
  bool measured_, own_rule_, drafts_forced_ = true;
  Lookup lookup_;
  CandidateOdds odds_;
  // How often a token that a grammar forces is right, by what kind of force it is.
  std::array<double, TokenGrammar::Forced::kKinds> forced_right_ = {0, 1, 0.9, 0.5};
  Observer observer_;
  Asking asking_;
  LearnedRowCosts costs_{assumed_row_costs()};
  double tokens_, time_;  // of rounds of late, in plain rounds; the rate begins at plain decoding's
  double gained_ = 0;     // by this reply, in plain rounds
  int64_t rounds_ = 0;
  int answers_in_reply_ = 0;  // of the guesser in this reply
  double own_right_ = 0.7;    // how often drafts by its own rule are right
  Control control_;

  // Of the round under way.
  std::vector<Candidate> candidates_;  // a heap by `right`
  std::vector<Lookup::Found> found_;   // scratch
  std::vector<Said> said_;
  size_t here_ = 0;  // of them, those of the newest row begin here
  std::vector<Answer> answers_;
  double worth_ = 0, most_ = 0;  // of what was looked up, and of that up to kept_, less its cost
  int kept_ = 0;
  int own_rows_ = 1;  // that the guesser drafted by its own rule, the root too
};

}  // namespace specbound
