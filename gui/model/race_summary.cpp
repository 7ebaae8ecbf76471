#include "gui/model/race_summary.h"

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

std::string figures(const RaceLane& lane) {
  std::string text = format("%d token%s in %s", lane.tokens, lane.tokens == 1 ? "" : "s",
                            duration(lane.seconds).c_str());
  if (lane.seconds > 0) text += format(", %.1f tokens/s", lane.tokens / lane.seconds);
  return text;
}

RaceLane under_way(const ReplyTrace* reply, bool running) {
  RaceLane lane;
  if (!reply) return lane;
  lane.tokens = static_cast<int>(reply->columns.size());
  lane.seconds = reply->seconds;
  lane.state = !running || reply->over ? RaceLane::State::kDone
               : lane.tokens == 0      ? RaceLane::State::kReading
                                       : RaceLane::State::kRunning;
  return lane;
}

RaceLane finished(const GenerateStats& stats) {
  RaceLane lane;
  lane.state = RaceLane::State::kDone;
  lane.tokens = stats.generated_tokens;
  lane.seconds = stats.decode_seconds;
  return lane;
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

RaceSummary summarize(const Race& race, const ReplyTrace* plain, const ReplyTrace* speculative) {
  RaceSummary summary;
  const bool over = race.result.has_value() && !race.result->stopped;
  summary.plain = over ? finished(race.result->plain) : under_way(plain, race.running);
  summary.speculative =
      over ? finished(race.result->speculative) : under_way(speculative, race.running);
  const double longest = std::max(summary.plain.seconds, summary.speculative.seconds);
  summary.axis_seconds = over && longest > 0 ? longest : round_axis(longest);
  for (RaceLane* lane : {&summary.plain, &summary.speculative}) {
    lane->share = static_cast<float>(std::clamp(lane->seconds / summary.axis_seconds, 0.0, 1.0));
    if (lane->tokens > 0) lane->figures = figures(*lane);
  }
  if (!over) return summary;
  if (summary.plain.seconds > 0 && summary.speculative.seconds > 0) {
    summary.ratio = summary.plain.seconds / summary.speculative.seconds;
    summary.headline = headline(*summary.ratio);
    const int runs = race.result->runs;
    if (runs > 1) summary.headline += format(", %d runs", runs);
    if (summary.plain.tokens < kFewTokens && runs < kFewRuns) {
      summary.caution = "A reply this short says little: ask for more, or race again.";
    }
  }
  summary.identical = race.result->identical;
  summary.verdict = summary.identical ? "identical: yes" : "identical: no";
  summary.explanation =
      summary.identical
          ? "The two texts are the same to the last byte: every draft was verified by all layers."
          : "The texts differ, which must never happen; please report it. " +
                race.result->first_difference;
  return summary;
}

}  // namespace specbound::gui
