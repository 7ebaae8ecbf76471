// The tables and figures of spec-bench, from numbers made up so that a hand can follow them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "app/spec_bench_sweep.h"
#include "app/spec_bench_tables.h"
#include "decode/round.h"
#include "expect_error.h"
#include "train/svg_plot.h"

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
};

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

SpecBenchResult with_speedup(const std::string& name, double math, double overall) {
  SpecBenchResult r;
  r.name = name;
  r.tasks[0].questions = r.overall.questions = 1;
  r.tasks[0].speedup.ratio = math;
  r.overall.speedup.ratio = overall;
  return r;
}

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

  const std::string one = table_1(std::vector{r});
  check_mentions(one, {"multi-turn", " 6.00   2.00x", " 5.00   0.80x", "5.71   1.70x",
                       "[0.800, 2.000]", "1.14x", "1.19x", "    -"});
  check_mentions(table_3(r), {"TTFT, ms", "TPOT, ms", "10.00", "17.00", "1.70x"});
  check_mentions(table_5(r), {"min 0.80", "max 2.00", "slower than plain decoding: 1 (50.00 %)",
                              " 1.76x -  2.00x      1   50.00 %"});
  check_mentions(table_2(std::vector<std::string>{"greedy", "T 1.0"}, std::vector{r, r}),
                 {"SD of specbound", "greedy", "T 1.0", "1.70x"});

  const nlohmann::ordered_json json = result_json(r);
  CHECK(json["tasks"].size() == 2);
  CHECK(json["tasks"]["qa"]["speedup"].get<double>() == doctest::Approx(0.8));
  CHECK(json["share_below_1"] == 0.5);
  CHECK(json["speedup_quantiles"]["0.5"].get<double>() == doctest::Approx(1.4));
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
  (void)table_1(std::vector{r});
  (void)table_3(r);
  (void)table_5(r);
  CHECK(spec_bench_result("x", {}).overall.questions == 0);
  CHECK(speedup_buckets({}).empty());
  CHECK(quantile({}, 0.5) == 0);
}

TEST_CASE("spec-bench: quantiles and the paper's five buckets") {
  const std::vector<double> s = {1, 2, 3, 4, 6};
  CHECK(quantile(s, 0) == 1);
  CHECK(quantile(s, 0.25) == 2);
  CHECK(quantile(s, 0.5) == 3);
  CHECK(quantile(s, 0.875) == 5);
  CHECK(quantile(s, 1) == 6);
  const std::vector<SpeedupBucket> buckets = speedup_buckets(s);  // 1, 2, 3, 4, 5, 6
  REQUIRE(buckets.size() == 5);
  const int expected[] = {1, 1, 1, 1, 1};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(buckets[i].low == doctest::Approx(1.0 + static_cast<double>(i)));
    CHECK(buckets[i].high == doctest::Approx(2.0 + static_cast<double>(i)));
    CHECK(buckets[i].questions == expected[i]);
  }
  const std::vector<double> same = {1.5, 1.5, 1.5};
  int questions = 0;
  for (const SpeedupBucket& bucket : speedup_buckets(same)) questions += bucket.questions;
  CHECK(questions == 3);
}

TEST_CASE("spec-bench: who is faster than the first is said by task") {
  const std::vector<SpecBenchResult> results = {with_speedup("specbound", 1.5, 1.4),
                                                with_speedup("ngram", 1.6, 1.3),
                                                with_speedup("hybrid", 1.7, 1.4)};
  const std::string said = faster_than_first(results);
  check_mentions(said, {"faster than specbound (1.50x) on math: ngram 1.60x, hybrid 1.70x"});
  CHECK(count(said, "\n") == 1);  // nobody is on all together, nor on tasks without questions
  CHECK(faster_than_first(std::vector{results[2], results[0]}) ==
        "nothing is faster than hybrid on any task\n");
  CHECK(faster_than_first(std::vector{results[0]}) == "");
}

TEST_CASE("spec-bench: the sweep moves one setting at a time") {
  SpeculationFlags base;
  base.specbound.preset = Preset::kShipped;
  SpecBoundParams setting;
  setting.tau = 0.35f;
  setting.alpha = 0.2f;
  setting.w_max = 5;
  setting.check_layers = {4};
  const std::vector<SweepPoint> points = sweep_points(base, setting, {4, 8, 12});
  std::string moved;
  for (const SweepPoint& p : points) {
    const SpecBoundFlags& f = p.drafter.flags->specbound;
    CHECK(f.preset == Preset::kShipped);
    const int given = int(f.tau.has_value()) + int(f.alpha.has_value()) + int(f.d_max.has_value()) +
                      int(f.w_max.has_value()) + int(f.no_anneal) + int(f.no_depth_bound) +
                      int(f.no_width_bound);
    CHECK(given == (p.label == "all" ? 0 : 1));
    if (p.parameter == "tau") CHECK(*f.tau == static_cast<float>(p.value));
    if (p.parameter == "d_max") CHECK(f.check_layers->empty());  // all of them
    moved += p.drafter.name + " ";
  }
  check_mentions(moved, {"tau-0.3 tau-0.35 tau-0.4 ", "alpha-0 alpha-0.1 alpha-0.2 alpha-0.4",
                         "d_max-4 d_max-8 d_max-12 ", "w_max-4 w_max-5 w_max-6 ",
                         "setting no-annealing no-depth-bound no-width-bound "});
  CHECK(count(moved, "alpha-0.2 ") == 1);  // the setting's is one of the list
  expect_error(ErrorCode::kUsage, [&] { sweep_points(base, setting, {}); });
  // A head before any layer is looked at whatever the bound, which is a layer.
  for (const std::vector<int>& layers : {std::vector{0, 4}, {0, 1, 4}}) {
    std::vector<double> depths;
    for (const SweepPoint& p : sweep_points(base, setting, layers)) {
      if (p.parameter == "d_max") depths.push_back(p.value);
    }
    CHECK(depths == std::vector<double>{1, 4});
  }

  std::vector<SpecBenchResult> results;
  for (size_t i = 0; i < points.size(); ++i) {
    results.push_back(with_speedup(points[i].drafter.name, 1, 1 + 0.01 * static_cast<double>(i)));
  }
  const auto files = sweep_figures(points, results);
  REQUIRE(files.size() == 5);
  CHECK(files[0].first == "figure3-tau.svg");
  CHECK(files[4].first == "figure4.svg");
  for (const auto& [name, svg] : files) {
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(count(svg, "<svg") == count(svg, "</svg>"));
    CHECK(count(svg, "<style>") == 1);
    CHECK(svg.find("nan") == svg.npos);
  }
  CHECK(count(files[2].second, "<circle") == 2 * 3);  // SD and CR of three depths
  CHECK(count(files[4].second, "<rect") == 4);
  check_mentions(sweep_table(points, results), {"tau 0.35", "no width bound"});
  const nlohmann::ordered_json json = sweep_json(points, results);
  CHECK(json["figure_3"]["d_max"].size() == 3);
  CHECK(json["figure_3"]["tau"][0]["value"] == 0.1);
  CHECK(json["figure_4"].size() == 4);
}

TEST_CASE("svg: bars carry their names, whatever is in them") {
  const std::string svg =
      svg_bars({"<speed>", {{"a & b", 1.25}, {"none", std::nan("")}, {"zero", 0}}});
  check_mentions(svg, {"&lt;speed&gt;", "a &amp; b", ">1.25</text>", ">zero</text>"});
  CHECK(count(svg, "<rect") == 2);  // what is no number has none
  CHECK(svg.find("nan") == svg.npos);
  CHECK(svg_bars({"empty", {}}).find("nan") == std::string::npos);
}
