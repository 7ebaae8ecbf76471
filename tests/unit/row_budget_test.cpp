// How many rows pay, of a reply alone and of several that share a pass.
#include "drafters/row_budget.h"

#include <doctest/doctest.h>

#include "tree_rows.h"

namespace row_budget_test {

using namespace specbound;
using test::tree_rows::costing;

namespace {

// Of `room` rows that are all of this value, those that are worth most together.
int rows_taken(RowBudget& budget, int room, double value) {
  int taken = 0, best = 0;
  while (taken < room && budget.take(value)) {
    ++taken;
    if (budget.at_best()) best = taken;
  }
  return best;
}

// At the rate of plain decoding.
RowBudget budget_of(const RowCosts& costs) {
  RowBudget budget(true);
  budget.set_costs(costs);
  for (int i = 0; i < 200; ++i) budget.gave(1, 1, 1);
  return budget;
}

}  // namespace

TEST_CASE("row budget: rows pay by what they add to the pass, which all that share it pay") {
  RowBudget budget = budget_of(costing(0.1));
  CHECK(budget.rate() == doctest::Approx(1));
  CHECK(budget.time(1, 4, 0) == doctest::Approx(1.3));
  budget.start(1, 1, 15, 0);
  CHECK(budget.cost(1) == doctest::Approx(0.1));
  CHECK(budget.cost(3) == doctest::Approx(0.3));
  CHECK(rows_taken(budget, 15, 0.11) == 15);
  budget.start(1, 1, 15, 0);
  CHECK(budget.could_pay(0.11));
  CHECK_FALSE(budget.could_pay(0.09));
  CHECK(rows_taken(budget, 15, 0.09) == 0);
  // A pass of six gives six tokens in 1.5 plain passes' time.
  budget.start(6, 6, 10, 0);
  CHECK(budget.cost(1) == doctest::Approx(6 * 0.1 / 1.5));
  CHECK(rows_taken(budget, 10, 0.41) == 10);
  budget.start(6, 6, 10, 0);
  CHECK(rows_taken(budget, 10, 0.39) == 0);
  // Rows that the pass has already are no cost of theirs.
  budget.start(6, 8, 2, 0);
  CHECK(budget.cost(1) == doctest::Approx(6 * 0.1 / 1.5));
  CHECK(rows_taken(budget, 2, 1) == 2);
  // Where passes give more than plain ones, so must a row.
  for (int i = 0; i < 400; ++i) budget.gave(3, 1, 1.5);
  budget.start(1, 1, 15, 0);
  CHECK(budget.rate() == doctest::Approx(2).epsilon(0.01));
  CHECK(rows_taken(budget, 15, 0.19) == 0);
  CHECK(rows_taken(budget, 15, 0.21) == 15);
  RowBudget dear = budget_of(costing(1.01));
  dear.start(1, 1, 15, 0);
  CHECK_FALSE(dear.could_pay(1));
  CHECK_FALSE(dear.take(1));
  RowBudget unmeasured(false);
  unmeasured.set_costs(costing(1.01));
  unmeasured.start(4, 4, 12, 0);
  CHECK(rows_taken(unmeasured, 12, 0.02) == 12);
}

TEST_CASE("row budget: rows go on over a step while enough to pay for it may come") {
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = rows == 1 ? 1 : 1.6;
  RowBudget budget = budget_of(costs);
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

}  // namespace row_budget_test
