// How many rows pay, of a reply alone and of several that share a pass, and how cautious one is.
#include "decode/row_budget.h"

#include <doctest/doctest.h>

#include "tree_rows.h"

namespace row_budget_test {

using namespace specbound;
using test::tree_rows::costing;

namespace {

// Of `room` rows that are all right with chance `right`, those that are worth most together.
int rows_taken(RowBudget& budget, int room, double right) {
  int taken = 0, best = 0;
  while (taken < room && budget.take(right)) {
    ++taken;
    if (budget.at_best()) best = taken;
  }
  return best;
}

// Nothing is gained any more by what comes: the margin is its least.
RowBudget settled(const RowCosts& costs) {
  RowBudget budget(true);
  budget.set_costs(costs);
  for (int i = 0; i < 200; ++i) budget.gave(1, 1, 1, 0);
  return budget;
}

}  // namespace

TEST_CASE("row budget: rows pay by what they add to the pass, which all that share it pay") {
  RowBudget budget = settled(costing(0.1));
  CHECK(budget.margin() == doctest::Approx(1.2));
  CHECK(budget.rate() == doctest::Approx(1));
  budget.start(1, 1, 15, 0);
  CHECK(budget.cost(1) == doctest::Approx(0.12));
  CHECK(budget.cost(3) == doctest::Approx(0.36));
  CHECK(rows_taken(budget, 15, 0.13) == 15);
  budget.start(1, 1, 15, 0);
  CHECK(budget.could_pay());
  CHECK(rows_taken(budget, 15, 0.11) == 0);
  // A pass of six gives six tokens in 1.5 plain passes' time.
  budget.start(6, 6, 10, 0);
  CHECK(budget.cost(1) == doctest::Approx(1.2 * 6 * 0.1 / 1.5));
  CHECK(rows_taken(budget, 10, 0.49) == 10);
  budget.start(6, 6, 10, 0);
  CHECK(rows_taken(budget, 10, 0.47) == 0);
  // Rows that the pass has already are no cost of theirs.
  budget.start(6, 8, 2, 0);
  CHECK(budget.cost(1) == doctest::Approx(1.2 * 6 * 0.1 / 1.5));
  CHECK(rows_taken(budget, 2, 1) == 2);
  RowBudget dear = settled(costing(1.01));
  dear.start(1, 1, 15, 0);
  CHECK_FALSE(dear.could_pay());
  CHECK_FALSE(dear.take(1));
  RowBudget unmeasured(false);
  unmeasured.set_costs(costing(1.01));
  unmeasured.start(4, 4, 12, 0);
  CHECK(rows_taken(unmeasured, 12, 0.02) == 12);
}

TEST_CASE("row budget: rows go on over a step while enough to pay for it may come") {
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = rows == 1 ? 1 : 1.5;
  RowBudget budget = settled(costs);
  budget.start(1, 1, 3, 0);
  CHECK(budget.take(0.29));  // 0.87 of three would pay for 0.6
  CHECK_FALSE(budget.at_best());
  CHECK(budget.take(0.29));
  CHECK_FALSE(budget.at_best());
  CHECK(budget.take(0.29));
  CHECK(budget.at_best());
  budget.start(1, 1, 3, 0);
  CHECK(budget.take(0.29));
  CHECK_FALSE(budget.take(0.1));  // what comes is too little
  CHECK_FALSE(budget.at_best());
}

TEST_CASE("row budget: a reply that begins has to gain first, by drafts or by its length") {
  RowBudget budget = settled(costing(0.1));
  budget.begin_reply();
  CHECK(budget.margin() == doctest::Approx(3.6));
  for (int i = 0; i < 20; ++i) budget.gave(1, 1, 1, 0);  // plainly: a twentieth a token
  CHECK(budget.margin() == doctest::Approx(2.4));
  budget.gave(2, 1, 2, 0);  // two tokens in 1.1 passes
  CHECK(budget.margin() == doctest::Approx(2.4 - 1.2));
  budget.begin_reply();
  budget.gave(12, 6, 6, 0);  // of a company each, in its own plain pass's time
  CHECK(budget.margin() == doctest::Approx(3.6 - 1.2 * 1.1));
  budget.begin_reply();
  budget.gave(1, 1, 6, 0);  // drafts that were wrong
  CHECK(budget.margin() == doctest::Approx(3.6 + 1.2 * (0.5 - 0.05)));
  CHECK(budget.rate() >= 1);
}

}  // namespace row_budget_test
