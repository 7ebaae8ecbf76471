// What spec-bench makes of answers, from numbers made up so that a hand can follow them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "spec_bench/spec_bench_scores.h"

namespace spec_bench_scores_test {

using namespace specbound;
using specbound::test::check_mentions;
using specbound::test::expect_error;

namespace {

SpecBenchTurn turn(std::vector<int> steps, double wall, double prefill, double ttft) {
  SpecBenchTurn t;
  t.text = "text";
  t.step_tokens = std::move(steps);
  t.wall_seconds = wall;
  t.prefill_seconds = prefill;
  t.ttft_seconds = ttft;
  return t;
}

SpecBenchAnswer answer(int64_t id, const char* category, std::vector<SpecBenchTurn> turns) {
  SpecBenchAnswer a;
  a.question_id = id;
  a.category = category;
  a.turns = std::move(turns);
  return a;
}

std::vector<int> ones(int n) {
  return std::vector<int>(static_cast<size_t>(n), 1);
}

// Question 81 of two turns: 30 tokens in 2 s, drafted in 1 s. Question 321: 10 tokens in 2 s,
// drafted in 2.5 s.
struct MadeUp {
  SpecBenchAnswer plain81 =
      answer(81, "writing", {turn(ones(10), 1, 0.2, 0.28), turn(ones(20), 1, 0.2, 0.24)});
  SpecBenchAnswer drafted81 =
      answer(81, "writing", {turn({4, 4, 2}, 0.5, 0.2, 0.3), turn({10, 10}, 0.5, 0.2, 0.22)});
  SpecBenchAnswer plain321 = answer(321, "qa", {turn(ones(10), 2, 0.5, 0.65)});
  SpecBenchAnswer drafted321 = answer(321, "qa", {turn({5, 5}, 2.5, 0.5, 0.7)});
  std::vector<SpecBenchPair> pairs = {{&plain81, &drafted81}, {&plain321, &drafted321}};

  MadeUp() {
    drafted81.turns[0].draft_seconds = 0.15;
    drafted321.turns[0].draft_seconds = 0.5;
    drafted81.turns[1].drafted_tokens = 20;
    drafted321.turns[0].drafted_tokens = 15;
  }
};

}  // namespace

TEST_CASE("spec-bench: CR and SD of made-up answers") {
  const MadeUp made;
  const SpecBenchResult r = spec_bench_result("specbound", made.pairs);
  CHECK(r.overall.questions == 2);
  CHECK(r.overall.compression_rate == doctest::Approx(40.0 / 7));
  // speed.py: the mean of 30 and 4 tokens a second over the mean of 15 and 5.
  CHECK(r.overall.speedup.ratio == doctest::Approx(17.0 / 10));
  CHECK(r.overall.speedup.low == doctest::Approx(0.8));
  CHECK(r.overall.speedup.high == doctest::Approx(2.0));
  CHECK(r.overall.token_exact == doctest::Approx(4 / 3.5));
  CHECK(r.overall.decode.ratio == doctest::Approx((4 - 0.9) / (3.5 - 0.9)));
  CHECK(r.overall.decode.low == doctest::Approx(1.5 / 2));  // question 321 drawn twice
  CHECK(r.overall.decode.high == doctest::Approx(1.6 / 0.6));
  const SpecBenchScore& multi = r.tasks[spec_bench_task("writing")];
  CHECK(multi.questions == 1);
  CHECK(multi.compression_rate == doctest::Approx(6));
  CHECK(multi.speedup.ratio == doctest::Approx(2));
  const SpecBenchScore& qa = r.tasks[spec_bench_task("qa")];
  CHECK(qa.compression_rate == doctest::Approx(5));
  CHECK(qa.speedup.ratio == doctest::Approx(0.8));
  CHECK(r.tasks[spec_bench_task("rag")].questions == 0);
  CHECK(r.differing.empty());

  // Table 3.
  CHECK(r.plain.ttft == doctest::Approx((0.28 + 0.24 + 0.65) / 3));
  CHECK(r.plain.tpot == doctest::Approx((0.72 / 9 + 0.76 / 19 + 1.35 / 9) / 3));
  CHECK(r.plain.throughput == doctest::Approx(10));
  CHECK(r.plain.end_to_end == doctest::Approx(4.0 / 3));
  CHECK(r.drafted.throughput == doctest::Approx(17));
  CHECK(r.drafted.end_to_end == doctest::Approx(3.5 / 3));
  // Table 5.
  REQUIRE(r.speedups.size() == 2);
  CHECK(r.speedups[0] == doctest::Approx(0.8));
  CHECK(r.speedups[1] == doctest::Approx(2));

  // Rounds of 4, 4, 2, 10, 10, 5 and 5 tokens, one of each drafted by nobody.
  CHECK(r.drafts.right[0] == doctest::Approx(1));
  CHECK(r.drafts.right[1] == doctest::Approx(6.0 / 7));
  CHECK(r.drafts.right[3] == doctest::Approx(4.0 / 7));
  CHECK(r.drafts.right[5] == doctest::Approx(2.0 / 7));
  CHECK(r.drafts.drafted == doctest::Approx(5));
  CHECK(r.drafts.drafting == doctest::Approx(0.65 / 2.6));
  check_mentions(
      drafts_table(std::vector<std::string>{"specbound, T 1.0"}, std::vector{r}),
      {"first 6", "specbound, T 1.0", "100.0 %", "85.7 %", "57.1 %", "28.6 %", "5.00", "25.0 %"});

  check_mentions(scores_table(std::vector<std::string>{"specbound, T 1.0"}, std::vector{r}),
                 {"multi-turn", "specbound, T 1.0", "2.00x", "0.80x", "5.71", "1.70x",
                  "0.800 - 2.000", "1.19x", "50.0 %", "|      |"});

  const nlohmann::ordered_json json = result_json(r);
  CHECK(json["tasks"].size() == 2);
  CHECK(json["tasks"]["qa"]["speedup"].get<double>() == doctest::Approx(0.8));
  CHECK(json["share_below_1"] == 0.5);
  CHECK(json["speedups"].size() == 2);
  CHECK(json["right"].size() == SpecBenchDrafts::kPlaces);
  CHECK(json["drafts_a_round"].get<double>() == doctest::Approx(5));
  CHECK(json["drafting"].get<double>() == doctest::Approx(0.25));
  CHECK(json["drafted"]["tokens_per_second"].get<double>() == doctest::Approx(17));
}

TEST_CASE("spec-bench: texts that differ are named, by their tokens too") {
  MadeUp made;
  made.drafted81.turns[1].text = "texts";
  made.drafted321.turns[0].token_hash = 1;
  const SpecBenchResult r = spec_bench_result("specbound", made.pairs);
  CHECK(r.differing == std::vector<std::string>{"question 81, turn 2", "question 321, turn 1"});

  MadeUp longer;
  longer.drafted81.turns[0].step_tokens.push_back(1);  // an end token that plain decoding has not
  CHECK(spec_bench_result("specbound", longer.pairs).differing ==
        std::vector<std::string>{"question 81, turn 1"});
}

TEST_CASE("spec-bench: nothing measured is no crash and no infinity") {
  SpecBenchAnswer empty = answer(1, "qa", {turn({}, 0, 0, 0)});
  const std::vector<SpecBenchPair> pairs = {{&empty, &empty}};
  const SpecBenchResult r = spec_bench_result("x", pairs);
  CHECK(r.overall.speedup.ratio == 0);
  CHECK(result_json(r).dump().find("null") == std::string::npos);
  (void)scores_table(std::vector<std::string>{"x"}, std::vector{r});
  CHECK(spec_bench_result("x", {}).overall.questions == 0);
}

}  // namespace spec_bench_scores_test
