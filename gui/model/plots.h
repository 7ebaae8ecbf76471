// What the plots of the live panel show, apart from drawing: the figures of a reply, and the
// sentence under each plot that says what it means.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "gui/model/trace_model.h"

namespace specbound::gui {

// An axis from 0 that ends on a round number at or above `highest`, in steps of round numbers.
struct Axis {
  double max = 1;
  double step = 1;
  int decimals = 0;  // that the steps need

  std::string label(double value) const;
};
// About `steps` steps; 0..1 where `highest` is nothing to go by. `whole`: for counts.
Axis round_axis(double highest, int steps, bool whole = false);

// "4.8 ms", "1.25 s"
std::string short_duration(double seconds);

// Every plot has a headline (the one figure to take away) and a caption. `empty`: what to do to see
// something, where there is nothing yet.
struct PlotText {
  std::string headline, caption, empty;
};

// (2) Where drafts left.
struct ExitPlot {
  PlotText text;
  int first_layer = 1;
  std::vector<DraftCount> layers;  // from first_layer to the one below the last
  int highest = 0;
};
ExitPlot exit_plot(const ReplyTrace* reply, int n_layers);

// (3) How sure the exit heads were, and what they were held against.
struct CheckPlot {
  PlotText text;
  int first_layer = 0, n_layers = 0;
  std::vector<CheckOutcome> checks;  // newest first
  std::optional<float> tau;
  std::vector<float> temperatures;  // T_l from first_layer to n_layers; empty: not annealed
};
CheckPlot check_plot(const ReplyTrace* reply, int n_layers);
// A row leaves where max softmax(z / T) >= tau. The least that max softmax(z) itself can be then:
// with two tokens to choose from; with more, more is needed.
float least_raw_confidence(float tau, float temperature);

// (4) Rates over time. Each point stands for the stretch of time that ends at it.
struct TimePoint {
  double seconds = 0, value = 0;
};
struct RatePlot {
  PlotText text;
  std::vector<TimePoint> tokens_per_second;
  std::optional<double> plain;
  double seconds = 0, highest = 0;
};
RatePlot rate_plot(const ReplyTrace* reply);
struct GainPlot {
  PlotText text;
  std::vector<TimePoint> speedup, compression_rate;
  double seconds = 0, highest = 0;
};
GainPlot gain_plot(const ReplyTrace* reply);

// (5) How often the first, second, ... draft of a round was right.
struct PlacePlot {
  PlotText text;
  std::vector<DraftCount> places;
};
PlacePlot place_plot(const ReplyTrace* reply);

// (6) Where the time goes.
struct PhasePlot {
  PlotText text;
  std::array<double, kPhases> share{};     // of the time in rounds; sums to 1
  std::array<double, kPhases> token_ms{};  // milliseconds a token
};
PhasePlot phase_plot(const ReplyTrace* reply);
// "draft: ..." what a phase does, for a newcomer.
const char* phase_meaning(Phase phase);

}  // namespace specbound::gui
