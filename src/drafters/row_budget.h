// How many rows of drafts pay in a pass, be they of one reply or of several that share it: what
// they are expected to bring against what they add to its cost. docs/architecture.md 3.4, 9.
#pragma once

#include <algorithm>

#include "drafters/row_costs.h"

namespace specbound {

// What a row of drafts must be worth of its cost in one reply, by what drafts have gained there.
class Caution {
 public:
  // Of many candidates that look just worth it, those that look better than they are get taken.
  static constexpr double kMargin = 1.2;
  // Times its cost.
  double margin() const { return kMargin * (1 + std::max(kGains - gained_, 0.0)); }
  // A round gave the reply so many tokens in the time of so many plain ones.
  void gave(double tokens, double time) { gained_ += (1 + kFades) * tokens - time; }

 private:
  // That, and as much again for each plain pass, of the first kGains, that a reply has not yet
  // gained, so that one in which little repeats is as fast as without drafts; this fades by kFades
  // with each token. By bench_lookup, where rows are dear (Qwen2.5-Coder-1.5B on AVX2), no reply of
  // 53 then loses more than 2 %, without it 6 do, and the mean stays.
  static constexpr double kGains = 2;
  static constexpr double kFades = 0.05;

  double gained_ = 0;  // since the reply began, in plain passes
};

class RowBudget {
 public:
  // Without `measured` rows are taken for free.
  explicit RowBudget(bool measured) : measured_(measured) {}
  bool measured() const { return measured_; }
  // What passes cost; assumed_row_costs() until then.
  void set_costs(const RowCosts& costs) { costs_ = LearnedRowCosts(costs); }
  LearnedRowCosts& costs() { return costs_; }
  const LearnedRowCosts& costs() const { return costs_; }

  // A pass is filled that has `rows` rows, of them `plain` ones that it would have without drafts,
  // and room for `room` more, behind `pos` positions.
  void start(int plain, int rows, int room, int pos);
  // A row more, for which there is room. `value`: the chance that it is right, by the margin of its
  // reply; none that comes behind it has more. Costs rise in steps, so that the second row may cost
  // as much as the next six: rows go on where enough of them would pay together, and the last ones
  // go where too few came. False: it does not pay.
  bool take(double value);
  // The row taken last is one of those that are worth most together.
  bool at_best() const { return at_best_; }
  // Whether rows of no higher value could.
  bool could_pay(double value) const { return most_worth(value) > 0; }
  // What `more` rows cost, in tokens.
  double cost(int more) const;
  // Tokens in the time of a plain pass, which always gives one to each reply, by reply.
  double rate() const { return std::max(tokens_ / time_, 1.0); }

  // What a pass of so many rows takes, in plain ones.
  double time(int plain, int rows, int pos) const {
    return costs_.pass(rows, pos) / costs_.pass(plain, pos);
  }
  // A pass gave so many tokens in so much time, in plain passes.
  void gave(int tokens, int plain, double time);

 private:
  static constexpr double kRateKept = 0.98;  // of the running rate, from round to round
  static constexpr double kFirstRounds = 8;  // that the plain rate counts for at first

  double most_worth(double value) const;

  bool measured_;
  LearnedRowCosts costs_{assumed_row_costs()};
  // Of passes of late, in plain ones; the rate begins at plain decoding's.
  double tokens_ = kFirstRounds, time_ = kFirstRounds;

  // Of the pass that is filled.
  int plain_ = 1, rows_ = 1, room_ = 0, pos_ = 0;
  double worth_ = 0, most_ = 0;  // of what was taken, and of that up to the best, less its cost
  bool at_best_ = false;
};

}  // namespace specbound
