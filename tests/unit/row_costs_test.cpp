// What passes over several rows cost: as it is measured, and corrected by rounds.
#include "drafters/row_costs.h"

#include <doctest/doctest.h>

#include <cmath>

#include "engine_rig.h"
#include "tree_rows.h"

namespace row_costs_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::test::tree_rows;

TEST_CASE("row costs: what rounds take corrects them, one slow round hardly") {
  LearnedRowCosts costs(costing(0.01));  // as a busy machine measured them
  const auto truly = [](int rows) { return 0.05 + 0.01 * rows; };
  costs.learn(1, 0, 0);
  costs.learn(1, 0, NAN);
  CHECK(costs.pass(1, 0) == 1);
  for (const double seconds : {truly(1), 100.0, truly(1)}) costs.learn(1, 0, seconds);
  CHECK(costs.pass(1, 0) == doctest::Approx(truly(1)));
  costs.learn(1, 0, 100);
  CHECK(costs.pass(1, 0) < 1.6 * truly(1));
  for (int i = 0; i < 60; ++i) {
    for (const int rows : {1, 2, 4, 8}) costs.learn(rows, 0, truly(rows));
  }
  for (const int rows : {1, 2, 4, 8}) {
    CHECK(costs.pass(rows, 0) == doctest::Approx(truly(rows)).epsilon(0.05));
  }
  for (int rows = 2; rows <= kMaxRows; ++rows)
    CHECK(costs.pass(rows, 9) >= costs.pass(rows - 1, 9));
  CHECK(costs.pass(6, 0) > truly(4));

  // Most passes are of one row, and what others add to it is not hidden by that: first measured
  // where memory was slow, then it is fast and rows are what takes time.
  const auto fast = [](int rows) { return 0.002 + 0.0005 * rows; };
  LearnedRowCosts slow([] {
    RowCosts costs;
    for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 0.005 + 0.0005 * rows;
    return costs;
  }());
  for (int i = 0; i < 60; ++i) {
    for (const int rows : {1, 1, 1, 1, 2, 1, 1, 2, 3, 1}) slow.learn(rows, 0, fast(rows));
  }
  for (const int rows : {2, 3}) {
    const double added = slow.pass(rows, 0) - slow.pass(1, 0);
    CHECK(added == doctest::Approx(fast(rows) - fast(1)).epsilon(0.2));
  }

  LearnedRowCosts assumed(assumed_row_costs());
  for (int i = 0; i < 3; ++i) assumed.learn(2, 7, 0.002);
  CHECK(assumed.pass(2, 7) == doctest::Approx(0.002));
  CHECK(assumed.pass(1, 7) == doctest::Approx(0.002 / 1.09));
}

TEST_CASE("row costs: every size is measured, more rows never cost less, nothing stays cached") {
  for (const int n_ctx : {0, 20, 3}) {  // too short for many rows
    const auto engine = model().backend(best_isa(), 1, true, n_ctx);
    const RowCosts costs = measure_row_costs(*engine, 0.001);
    for (int rows = 1; rows <= kMaxRows; ++rows) {
      REQUIRE(costs.start[rows] > 0);
      REQUIRE(costs.position[rows] >= costs.position[rows - 1]);
      if (rows > 1) REQUIRE(costs.start[rows] >= costs.start[rows - 1]);
    }
    for (int l = 1; l <= tree_rows::kLayers; ++l) CHECK(engine->kv_len(l) == 0);
  }
}

}  // namespace row_costs_test
