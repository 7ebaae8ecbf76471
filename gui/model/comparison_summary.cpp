#include "gui/model/comparison_summary.h"

#include <algorithm>
#include <cmath>

#include "error.h"

namespace specbound::gui {

namespace {

// The next of 1, 2, 5, 10, ...: an axis that rests while a bar grows.
double round_axis(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(seconds)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (seconds <= step * power) return step * power;
  }
  return 10 * power;
}

std::string figures(const ComparisonSide& side) {
  std::string text = format("%d token%s in %s", side.tokens, side.tokens == 1 ? "" : "s",
                            duration(side.seconds).c_str());
  if (side.seconds > 0) text += format(", %.1f tokens/s", side.tokens / side.seconds);
  return text;
}

ComparisonSide under_way(const ReplyTrace* reply, bool running) {
  ComparisonSide side;
  if (!reply) return side;
  side.tokens = static_cast<int>(reply->columns.size());
  side.seconds = reply->seconds;
  side.state = !running || reply->over ? ComparisonSide::State::kDone
               : side.tokens == 0      ? ComparisonSide::State::kReading
                                       : ComparisonSide::State::kRunning;
  return side;
}

ComparisonSide finished(const GenerateStats& stats) {
  ComparisonSide side;
  side.state = ComparisonSide::State::kDone;
  side.tokens = stats.generated_tokens;
  side.seconds = stats.decode_seconds;
  return side;
}

std::string headline(double ratio) {
  if (ratio >= 1.05) return format("%.2f times as fast with speculation", ratio);
  if (ratio > 0.95) return "About the same time with speculation";
  return format("%.2f times the time with speculation", 1 / ratio);
}

// Below both of them a hiccup of the machine weighs as much as what is measured.
constexpr int kFewTokens = 32, kFewRuns = 5;

}  // namespace

std::string duration(double seconds) {
  return seconds < 1 ? format("%.3g ms", seconds * 1e3) : format("%.2f s", seconds);
}

ComparisonSummary summarize(const Comparison& comparison, const ReplyTrace* plain,
                            const ReplyTrace* speculative) {
  ComparisonSummary summary;
  const bool over = comparison.result.has_value() && !comparison.result->stopped;
  summary.plain = over ? finished(comparison.result->plain) : under_way(plain, comparison.running);
  summary.speculative =
      over ? finished(comparison.result->speculative) : under_way(speculative, comparison.running);
  const double longest = std::max(summary.plain.seconds, summary.speculative.seconds);
  summary.axis_seconds = over && longest > 0 ? longest : round_axis(longest);
  for (ComparisonSide* side : {&summary.plain, &summary.speculative}) {
    side->share = static_cast<float>(std::clamp(side->seconds / summary.axis_seconds, 0.0, 1.0));
    if (side->tokens > 0) side->figures = figures(*side);
  }
  if (!over) return summary;
  if (summary.plain.seconds > 0 && summary.speculative.seconds > 0) {
    summary.ratio = summary.plain.seconds / summary.speculative.seconds;
    summary.headline = headline(*summary.ratio);
    const int runs = comparison.result->runs;
    if (runs > 1) summary.headline += format(", %d runs", runs);
    if (summary.plain.tokens < kFewTokens && runs < kFewRuns) {
      summary.caution = "A reply this short says little: ask for more, or compare again.";
    }
  }
  summary.identical = comparison.result->identical;
  summary.verdict = summary.identical ? "identical: yes" : "identical: no";
  summary.explanation =
      summary.identical
          ? "The two texts are the same to the last byte: every draft was verified by all layers."
          : "The texts differ, which must never happen; please report it. " +
                comparison.result->first_difference;
  return summary;
}

}  // namespace specbound::gui
