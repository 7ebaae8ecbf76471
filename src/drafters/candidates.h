// Candidates for the rows of a round, from all that is said of the tokens behind them, the
// likeliest path first. Free ones come from the text itself (lookup), and from a grammar where it
// leaves hardly a choice; what it forbids is none. A guesser's answers come on top. One for each
// text; what is believed of them is one for all. docs/architecture.md 3.4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/round.h"
#include "drafters/candidate_odds.h"
#include "drafters/guesser.h"
#include "drafters/lookup.h"

namespace specbound {

// What was said of the token behind a row, drafted or not.
struct Said {
  int parent;
  int32_t token;
  CandidateOdds::Features features;
  int layer;  // where it was guessed; 0: none
  TokenGrammar::Forced::Kind forced = TokenGrammar::Forced::Kind::kNone;
  bool masked = false;  // a grammar forbids what the guesser holds for likeliest here
};

// How likely it is to be right, by texts of before; what comes corrects that.
class Belief {
 public:
  // What it begins with; CandidateOdds::shipped() until then.
  void set_odds(const CandidateOdds::Weights& odds) { odds_ = CandidateOdds(odds); }
  // Is told all that the odds learn from.
  using Observer = std::function<void(const CandidateOdds::Features&, bool right)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  double chance(const Said& said) const;
  void learn(const Said& said, bool right);
  // A round more was learned from. True: a little goes back to where it began, as now and then.
  bool count_round();

 private:
  CandidateOdds odds_;
  // How often a token that a grammar forces is right, by what kind of force it is.
  std::array<double, TokenGrammar::Forced::kKinds> forced_right_ = {0, 1, 0.9, 0.5};
  Observer observer_;
  int64_t rounds_ = 0;
};

struct Candidate {
  int parent = 0;
  int32_t token = 0;
  double right = 0;  // the chance that it and all before it are
  int drafted_at = 0;
};

class Candidates {
 public:
  static constexpr double kLeastRight = 0.01;  // of a path that is followed at all

  // All must outlive it. `memory`, of replies to other texts, and `store`; nullptr: none.
  Candidates(Belief& belief, LookupMemory* memory, const Datastore* store)
      : belief_(belief), lookup_(memory, store) {}
  // Whether what a grammar forces is a candidate (on).
  void draft_forced(bool on) { drafts_forced_ = on; }
  // Whether a row may have several behind it (on).
  void draft_siblings(bool on) { drafts_siblings_ = on; }

  void begin(std::span<const int32_t> text) { lookup_.begin(text); }
  std::span<const int32_t> text() const { return lookup_.text(); }  // so far
  void forget() { lookup_.forget(); }

  // ---- in a round ----

  void start();
  // What may stand behind row `parent`: it is the row that the next four speak of.
  void look_up(const Round& round, int parent);
  // What the guesser says of it, the newest row, in place of what it said before.
  void hear(const Round& round, const Guesser::Guess& guess);
  // nullptr: nothing is said of it. Holds until more is said.
  const Said* likeliest() const;
  double chance(const Said& said) const { return belief_.chance(said); }
  // All that was said of it waits for a row; the row is right with chance `path`.
  void wait(int parent, double path);

  // The best one that waits and may be a row, until more wait or it is taken; nullptr: none.
  const Candidate* best(Round& round);
  Candidate take();  // there is one

  // What became of the round.
  void learn(const RoundEvent& round);

 private:
  std::span<Said> here() { return std::span(said_).subspan(here_); }

  Belief& belief_;
  Lookup lookup_;
  bool drafts_forced_ = true, drafts_siblings_ = true;
  std::vector<Lookup::Found> found_;  // scratch
  std::vector<Said> said_;
  size_t here_ = 0;                 // of them, those of the row looked up last begin here
  std::vector<Candidate> waiting_;  // a heap by `right`
  std::optional<Candidate> best_;   // of them, taken out
};

}  // namespace specbound
