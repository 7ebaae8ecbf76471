#include "train/best_heads.h"

#include <doctest/doctest.h>

#include <vector>

#include "train/head_trainer.h"

namespace best_heads_test {

using namespace specbound;

TEST_CASE("heads get back what they held when they were right most often, each its own") {
  HeadReport chain, single;
  chain.depth_agreement = {0.5, 0.5};
  single.agreement = 0.5;
  CHECK(right_in_a_row(chain) == 0.75);
  CHECK(right_in_a_row(single) == 0.5);

  std::vector<LearningHead> heads(2);
  std::vector<BestHead> best(2);
  const auto set = [&](float first, float second) {
    heads[0].n_inner = 1;
    heads[0].map.value = {first, 1};
    heads[0].inner.value = {2 * first};
    heads[1].map.value = {second, 3};
  };
  const auto told = [&](double first, double second) {
    chain.depth_agreement = {first};
    single.agreement = second;
    return std::vector{chain, single};
  };
  chain.rows = single.rows = 100;
  set(10, 20);
  hold_best(told(0.4, 0.6), 1, heads, best);
  set(11, 21);
  hold_best(told(0.5, 0.6), 2, heads, best);  // the first of equals stays
  set(12, 22);
  hold_best(told(0.5, 0.3), 3, heads, best);
  CHECK(best[0].epoch == 2);
  CHECK(best[0].values == std::vector<float>{11, 1, 22});
  CHECK(best[1].epoch == 1);

  put_back_best(told(0.5, 0.4), heads, best);  // the first is as good at the end
  CHECK(heads[0].map.value == std::vector<float>{12, 1});
  CHECK(heads[1].map.value == std::vector<float>{20, 3});
  CHECK(heads[0].inner.value == std::vector<float>{24});
  CHECK(best[0].epoch == 0);
  CHECK(best[1].epoch == 1);
}

TEST_CASE("heads are worse where all are, by more than chance makes of their rows") {
  std::vector<HeadReport> now(2);
  std::vector<BestHead> best(2);
  best[0].score = best[1].score = 0.6;
  const auto worse = [&](double first, double second, int64_t rows) {
    now[0].agreement = first;
    now[1].agreement = second;
    for (HeadReport& report : now) report.rows = rows;
    return all_are_worse(now, best);
  };
  CHECK(worse(0.53, 0.53, 100));
  CHECK_FALSE(worse(0.53, 0.55, 100));
  CHECK_FALSE(worse(0.55, 0.53, 100));
  CHECK(worse(0.55, 0.55, 400));
  CHECK_FALSE(worse(0, 0, 0));

  // What no row was looked at of is not held either.
  std::vector<LearningHead> heads(2);
  std::vector<BestHead> none(2);
  for (HeadReport& report : now) report.rows = 0;
  hold_best(now, 1, heads, none);
  CHECK(none[0].score < 0);
}

}  // namespace best_heads_test
