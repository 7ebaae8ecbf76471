// The comparison as it is shown: bars that share one axis, the ratio and the verdict, and nothing
// made up before it is known.
#include "gui/model/comparison_summary.h"

#include <doctest/doctest.h>

namespace specbound::gui::comparison_summary_test {
namespace {

ReplyTrace reply(int tokens, double seconds, bool over) {
  ReplyTrace trace;
  trace.columns.resize(tokens);
  trace.seconds = seconds;
  trace.over = over;
  return trace;
}

Comparison finished(double plain_seconds, double speculative_seconds, bool identical = true) {
  Comparison comparison;
  comparison.result.emplace();
  comparison.result->plain.generated_tokens = comparison.result->speculative.generated_tokens = 40;
  comparison.result->plain.decode_seconds = plain_seconds;
  comparison.result->speculative.decode_seconds = speculative_seconds;
  comparison.result->identical = identical;
  return comparison;
}

using State = ComparisonSide::State;

}  // namespace

TEST_CASE("comparison: nothing is claimed before it has begun") {
  const ComparisonSummary summary = summarize(Comparison(), nullptr, nullptr);
  CHECK(summary.plain.state == State::kWaiting);
  CHECK(summary.plain.share == 0);
  CHECK(summary.plain.figures.empty());
  CHECK_FALSE(summary.ratio);
  CHECK(summary.headline.empty());
  CHECK(summary.verdict.empty());
}

TEST_CASE("comparison: while it runs, one side after the other, on one axis") {
  Comparison comparison;
  comparison.running = true;
  const ReplyTrace read = reply(0, 0, false);
  CHECK(summarize(comparison, &read, nullptr).plain.state == State::kReading);

  const ReplyTrace plain = reply(30, 1.2, true);
  const ReplyTrace speculative = reply(10, 0.2, false);
  const ComparisonSummary summary = summarize(comparison, &plain, &speculative);
  CHECK(summary.axis_seconds == doctest::Approx(2));
  CHECK(summary.plain.state == State::kDone);
  CHECK(summary.plain.share == doctest::Approx(0.6));
  CHECK(summary.plain.figures == "30 tokens in 1.20 s, 25.0 tokens/s");
  CHECK(summary.speculative.state == State::kRunning);
  CHECK(summary.speculative.share == doctest::Approx(0.1));
  CHECK_FALSE(summary.ratio);
  CHECK(summary.verdict.empty());
}

TEST_CASE("comparison: the end has times, ratio and verdict") {
  const ComparisonSummary summary = summarize(finished(2.0, 0.5), nullptr, nullptr);
  CHECK(summary.axis_seconds == doctest::Approx(2));
  CHECK(summary.plain.share == doctest::Approx(1));
  CHECK(summary.speculative.share == doctest::Approx(0.25));
  CHECK(*summary.ratio == doctest::Approx(4));
  CHECK(summary.headline == "4.00 times as fast with speculation");
  CHECK(summary.verdict == "identical: yes");
  CHECK(summary.speculative.figures == "40 tokens in 500 ms, 80.0 tokens/s");

  CHECK(summary.caution.empty());
  Comparison few = finished(0.002, 0.001);
  few.result->plain.generated_tokens = few.result->speculative.generated_tokens = 6;
  CHECK(summarize(few, nullptr, nullptr).plain.figures == "6 tokens in 2 ms, 3000.0 tokens/s");
  CHECK_FALSE(summarize(few, nullptr, nullptr).caution.empty());
  few.result->runs = 9;
  CHECK(summarize(few, nullptr, nullptr).caution.empty());
  CHECK(summarize(few, nullptr, nullptr).headline == "2.00 times as fast with speculation, 9 runs");

  CHECK(summarize(finished(1, 1.01), nullptr, nullptr).headline.starts_with("About the same"));
  CHECK(summarize(finished(1, 2), nullptr, nullptr).headline.starts_with("2.00 times the time"));
}

TEST_CASE("comparison: texts that differ are told, with where") {
  Comparison comparison = finished(2, 1, false);
  comparison.result->first_difference = "at byte 12";
  const ComparisonSummary summary = summarize(comparison, nullptr, nullptr);
  CHECK(summary.verdict == "identical: no");
  CHECK_FALSE(summary.identical);
  CHECK(summary.explanation.find("at byte 12") != std::string::npos);
}

TEST_CASE("comparison: a stopped one, and one of no tokens, claim nothing") {
  Comparison comparison = finished(2, 1);
  comparison.result->stopped = true;
  const ReplyTrace plain = reply(3, 0.1, true);
  const ComparisonSummary stopped = summarize(comparison, &plain, nullptr);
  CHECK(stopped.verdict.empty());
  CHECK_FALSE(stopped.ratio);
  CHECK(stopped.plain.tokens == 3);

  Comparison empty = finished(0, 0);
  empty.result->plain.generated_tokens = empty.result->speculative.generated_tokens = 0;
  const ComparisonSummary summary = summarize(empty, nullptr, nullptr);
  CHECK_FALSE(summary.ratio);
  CHECK(summary.headline.empty());
  CHECK(summary.verdict == "identical: yes");
  CHECK(summary.plain.share == 0);
  CHECK(summary.plain.figures.empty());
}

}  // namespace specbound::gui::comparison_summary_test
