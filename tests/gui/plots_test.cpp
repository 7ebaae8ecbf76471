// The plots' figures apart from drawing: round axes, sums that fit the reply, words where there is
// nothing to draw yet.
#include "gui/model/plots.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "drafters/specbound.h"
#include "gui/trace_rig.h"

namespace specbound::gui::plots_test {
namespace {

TraceModel some_rounds() {
  TraceModel trace;
  trace.set_model(6);
  trace.begin_reply(1, make_settings());
  for (int i = 0; i < 5; ++i) trace.round(1, make_round(i, 9 + i, {}), 0.01 * (i + 1));
  for (int i = 0; i < 20; ++i) {
    trace.round(1, make_round(5 + i, 14 + 3 * i, {2, 3}, i % 4 == 0 ? 1 : -1),
                0.05 + 0.01 * (i + 1));
  }
  return trace;
}

}  // namespace

TEST_CASE("plots: axes end on round numbers") {
  CHECK(round_axis(7, 4).max == 8);
  CHECK(round_axis(7, 4).step == 2);
  CHECK(round_axis(100, 4).max == 100);
  CHECK(round_axis(0.013, 3).step == doctest::Approx(0.005));
  CHECK(round_axis(0.013, 3).label(0.005) == "0.005");
  CHECK(round_axis(2500, 5).label(500) == "500");
  CHECK(round_axis(1, 3, true).step == 1);
  CHECK(round_axis(7, 3, true).step == 5);
  CHECK(short_duration(0.0048) == "4.8 ms");
  CHECK(short_duration(1.25) == "1.25 s");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()}) {
    CHECK(round_axis(bad, 4).max == 1);
  }
  for (double highest = 1e-6; highest < 1e7; highest *= 1.37) {
    const Axis axis = round_axis(highest, 4);
    CHECK(axis.max >= highest * (1 - 1e-9));
    CHECK(axis.max < highest * 2.6);
    const double steps = axis.max / axis.step;
    CHECK(std::abs(steps - std::round(steps)) < 1e-6);
    CHECK(steps <= 5.5);
  }
}

TEST_CASE("plots: without a reply each says what to do") {
  CHECK_FALSE(exit_plot(nullptr, 6).text.empty.empty());
  CHECK_FALSE(check_plot(nullptr, 6).text.empty.empty());
  CHECK_FALSE(rate_plot(nullptr).text.empty.empty());
  CHECK_FALSE(gain_plot(nullptr).text.empty.empty());
  CHECK_FALSE(place_plot(nullptr).text.empty.empty());
  CHECK_FALSE(phase_plot(nullptr).text.empty.empty());
}

TEST_CASE("plots: a plain reply says why there are no drafts") {
  TraceModel trace;
  trace.begin_reply(1, TraceReply());
  trace.round(1, make_round(0, 9, {}), 0.01);
  const ReplyTrace* reply = trace.find(1);
  CHECK(exit_plot(reply, 6).text.empty.find("plainly") != std::string::npos);
  CHECK(gain_plot(reply).text.empty.find("plainly") != std::string::npos);
  CHECK(rate_plot(reply).text.empty.empty());
  CHECK(phase_plot(reply).text.empty.empty());
}

TEST_CASE("plots: a reply without a round waits for it") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  CHECK_FALSE(rate_plot(trace.find(1)).text.empty.empty());
  CHECK_FALSE(phase_plot(trace.find(1)).text.empty.empty());
  trace.end_reply(1, "aborted");
  CHECK(exit_plot(trace.find(1), 6).text.empty.find("sure enough") != std::string::npos);
}

TEST_CASE("plots: exits by layer") {
  const TraceModel trace = some_rounds();
  const ExitPlot plot = exit_plot(trace.find(1), 6);
  CHECK(plot.text.empty.empty());
  CHECK(plot.first_layer == 1);
  REQUIRE(plot.layers.size() == 5);  // of six layers the last is no exit
  CHECK(plot.layers[1].accepted == 20);
  CHECK(plot.layers[2].accepted == 15);
  CHECK(plot.layers[2].rejected == 5);
  CHECK(plot.layers[4].total() == 0);
  CHECK(plot.highest == 20);
  CHECK(plot.text.headline == "mean layer 2.4 of 6");
}

TEST_CASE("plots: the threshold and the temperature that it is held against") {
  const TraceModel trace = some_rounds();
  const CheckPlot plot = check_plot(trace.find(1), 6);
  CHECK(*plot.tau == 0.55f);
  REQUIRE(plot.temperatures.size() == 6);
  CHECK(plot.temperatures.front() == doctest::Approx(1 + 0.2 * 5 / 6));
  CHECK(plot.temperatures.back() == 1);
  CHECK(plot.checks.size() == trace.find(1)->checks.size());
  SUBCASE("without annealing there is no curve, and the caption says so") {
    TraceModel other;
    other.begin_reply(1, make_settings(0.55f, 0));
    other.round(1, make_round(0, 9, {2}), 0.1);
    const CheckPlot flat = check_plot(other.find(1), 6);
    CHECK(flat.temperatures.empty());
    CHECK(flat.text.caption.find("same standard") != std::string::npos);
  }
  SUBCASE("of temperatures that heads have learnt the trace tells no curve") {
    TraceModel other;
    TraceReply learned = make_settings(0.55f, 0.2f);
    learned.settings->anneal_learned = true;
    other.begin_reply(1, learned);
    other.round(1, make_round(0, 9, {2}), 0.1);
    const CheckPlot own = check_plot(other.find(1), 6);
    CHECK(own.temperatures.empty());
    CHECK(own.tau == 0.55f);
    CHECK(own.text.caption.find("as it was learnt") != std::string::npos);
  }
}

TEST_CASE("plots: what a guess has to be before it is softened") {
  CHECK(least_raw_confidence(0.55f, 1) == doctest::Approx(0.55));
  CHECK(least_raw_confidence(0.55f, 1.2f) > 0.55f);
  // Two tokens of which one has that much: softened it just passes.
  for (const float tau : {0.3f, 0.55f, 0.9f}) {
    for (const float temperature : {1.0f, 1.1f, 2.0f}) {
      const float p = least_raw_confidence(tau, temperature);
      const float a = std::pow(p, 1 / temperature), b = std::pow(1 - p, 1 / temperature);
      CHECK(a / (a + b) == doctest::Approx(tau).epsilon(1e-4));
    }
  }
  CHECK(least_raw_confidence(0, 1.2f) == 0);
  CHECK(least_raw_confidence(1, 1.2f) == 1);
  CHECK(least_raw_confidence(NAN, 1.2f) == 0);
}

TEST_CASE("plots: rates over time, against the plain one") {
  const TraceModel trace = some_rounds();
  const RatePlot plot = rate_plot(trace.find(1));
  CHECK_FALSE(plot.tokens_per_second.empty());
  CHECK(*plot.plain == doctest::Approx(100));
  CHECK(plot.seconds == doctest::Approx(0.25));
  CHECK(plot.text.headline == "240.0 tokens/s, plain 100.0");
  for (size_t i = 1; i < plot.tokens_per_second.size(); ++i) {
    CHECK(plot.tokens_per_second[i].seconds > plot.tokens_per_second[i - 1].seconds);
    CHECK(plot.tokens_per_second[i].value <= plot.highest);
  }
  const GainPlot gain = gain_plot(trace.find(1));
  CHECK(gain.compression_rate.size() == gain.speedup.size());
  CHECK(gain.text.headline == "speedup 2.75x, CR 2.40");
}

TEST_CASE("plots: acceptance by place in the round") {
  const TraceModel trace = some_rounds();
  const PlacePlot plot = place_plot(trace.find(1));
  REQUIRE(plot.places.size() == 2);
  CHECK(*plot.places[0].acceptance() == 1);
  CHECK(*plot.places[1].acceptance() == 0.75);
  CHECK(plot.text.headline == "88% right");
}

TEST_CASE("plots: phases share the time out") {
  const TraceModel trace = some_rounds();
  const PhasePlot plot = phase_plot(trace.find(1));
  double sum = 0;
  for (const double share : plot.share) sum += share;
  CHECK(sum == doctest::Approx(1));
  CHECK(plot.share[0] == doctest::Approx(0.4));
  CHECK(plot.token_ms[0] == doctest::Approx(25 * 4.0 / 60));
  for (int i = 0; i < kPhases; ++i) {
    CHECK(std::string(phase_meaning(static_cast<Phase>(i))).rfind(kPhaseNames[i], 0) == 0);
  }
}

}  // namespace specbound::gui::plots_test
