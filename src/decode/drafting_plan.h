// The best way to draft under what has been measured: renewal-reward stopping by backward
// induction. A round gives tokens and takes time; at R tokens a unit of it in the long run each
// unit costs R tokens, so a step is worth its tokens less R times its time, against verifying at
// once. With the R that it brings about this is the most tokens in all (Dinkelbach).
// docs/architecture.md 9.
#pragma once

#include <array>
#include <vector>

#include "decode/acceptance_table.h"
#include "decode/round_costs.h"

namespace specbound {

class DraftingPlan {
 public:
  DraftingPlan(int n_checks, int most_width);

  // Plans rounds of at most `width` rows, 2 to that of the constructor.
  void make(const AcceptanceTable& table, const RoundCosts& costs, double rate, int width);

  int width() const { return width_; }
  // Where a round stands. Figures are in tokens, against verifying at once.
  struct Place {
    int rows = 1;         // in it
    double survival = 1;  // the chance that all drafts are right
    int deepest = 0;      // check that a row of it has been looked at with
  };
  // What looking at this check is worth, in AcceptanceTable's `context`.
  double check_value(const Place& place, int check, int context) const;
  // What leaving at it is worth, when AcceptanceTable says `acceptance` there.
  double exit_value(const Place& place, int check, int bin, double acceptance) const;

 private:
  static constexpr int kSteps = 16;  // of survival, from 0 to 1
  static constexpr int kDepths = 4;  // classes of `deepest`
  using Values = std::array<float, kSteps + 1>;

  int depth(int check) const { return check * n_depths_ / n_checks_; }
  int deepest_of(int depth) const { return ((depth + 1) * n_checks_ - 1) / n_depths_; }
  size_t at(int rows, int depth, int check) const {
    return static_cast<size_t>(((rows - 1) * n_depths_ + depth) * n_checks_ + check);
  }
  static double between(const Values& values, double survival);

  int n_checks_, n_depths_, width_;
  // As they were when the plan was made.
  std::vector<std::array<Values, AcceptanceTable::kContexts>>
      check_values_;               // at(): of check_value()
  std::vector<double> row_costs_;  // at(): tokens, a row's cost
};

}  // namespace specbound
