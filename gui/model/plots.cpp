#include "gui/model/plots.h"

#include <algorithm>
#include <cmath>

#include "drafters/specbound.h"
#include "error.h"
#include "gui/model/layer_map.h"

namespace specbound::gui {

namespace {

constexpr const char* kNoReply = "Send a message, and this fills in as the reply comes.";
constexpr const char* kPlainReply =
    "This reply was decoded plainly: nothing was drafted. Switch speculation on in the controls.";
constexpr const char* kWaiting = "The first tokens are on their way.";

bool decodes_plainly(const ReplyTrace& reply) {
  return reply.newest_settings().speculator == "none";
}

// Why a plot about drafts is empty.
std::string nothing_drafted(const ReplyTrace* reply) {
  if (!reply) return kNoReply;
  if (decodes_plainly(*reply)) return kPlainReply;
  return reply->over ? "No layer was sure enough to draft anything in this reply." : kWaiting;
}

DraftCount sum(const std::vector<DraftCount>& counts) {
  DraftCount all;
  for (const DraftCount& c : counts) {
    all.accepted += c.accepted;
    all.rejected += c.rejected;
    all.dropped += c.dropped;
  }
  return all;
}

// The slices that are long enough to tell a rate by; the newest may have just begun.
template <class F>
std::vector<TimePoint> points(const ReplyTrace& reply, F value) {
  std::vector<TimePoint> out;
  for (const RateSlice& slice : reply.slices) {
    const bool newest = &slice == &reply.slices.back();
    if (newest && !out.empty() && slice.rounds < reply.slice_rounds / 2) continue;
    const double v = value(slice);
    if (std::isfinite(v)) out.push_back({slice.end, v});
  }
  return out;
}

double highest(const std::vector<TimePoint>& points) {
  double most = 0;
  for (const TimePoint& p : points) most = std::max(most, p.value);
  return most;
}

double tokens_per_second(const RateSlice& slice) {
  return slice.tokens / slice.seconds;
}

}  // namespace

std::string Axis::label(double value) const {
  return format("%.*f", decimals, value);
}

Axis round_axis(double highest, int steps, bool whole) {
  Axis axis;
  if (!(highest > 0) || !std::isfinite(highest)) highest = 1;
  const double rough = highest / std::max(steps, 1);
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  const double digits = rough / magnitude;
  const double rounded = digits <= 1.0001 ? 1 : digits <= 2.0001 ? 2 : digits <= 5.0001 ? 5 : 10;
  axis.step = whole ? std::max(1.0, rounded * magnitude) : rounded * magnitude;
  axis.max = axis.step * std::ceil(highest / axis.step - 1e-9);
  axis.decimals = std::clamp(static_cast<int>(-std::floor(std::log10(axis.step) + 1e-9)), 0, 9);
  return axis;
}

std::string short_duration(double seconds) {
  return seconds < 1 ? format("%.1f ms", 1e3 * seconds) : format("%.2f s", seconds);
}

ExitPlot exit_plot(const ReplyTrace* reply, int n_layers) {
  ExitPlot plot;
  plot.text.empty = nothing_drafted(reply);
  plot.text.caption =
      "At which layer drafts left the network: the further left, the more layers were saved. "
      "Red ones turned out wrong, grey ones fell with a wrong one before them.";
  if (!reply || sum(reply->drafts_at).total() == 0) return plot;
  plot.text.empty.clear();
  plot.first_layer = first_map_layer(*reply);
  const int end = std::max<int>(n_layers, static_cast<int>(reply->drafts_at.size()));
  for (int l = plot.first_layer; l < end; ++l) {
    const bool known = static_cast<size_t>(l) < reply->drafts_at.size();
    plot.layers.push_back(known ? reply->drafts_at[l] : DraftCount());
    plot.highest = std::max(plot.highest, plot.layers.back().total());
  }
  if (const auto mean = reply->counters.mean_exit_layer()) {
    plot.text.headline = format("mean layer %.1f of %d", *mean, n_layers);
  }
  return plot;
}

float least_raw_confidence(float tau, float temperature) {
  if (!(tau > 0)) return 0;
  if (!(tau < 1)) return 1;
  const float odds = std::pow(tau / (1 - tau), temperature);
  return std::isfinite(odds) ? odds / (1 + odds) : 1;
}

CheckPlot check_plot(const ReplyTrace* reply, int n_layers) {
  CheckPlot plot;
  plot.text.empty = nothing_drafted(reply);
  plot.text.caption =
      "Each dot: an exit head checked a token, and how sure it was. On or above the line tau the "
      "token exits (green: it was right, red: wrong).";
  if (!reply || reply->checks.empty()) return plot;
  plot.text.empty.clear();
  plot.first_layer = first_map_layer(*reply);
  plot.n_layers = n_layers;
  plot.checks.assign(reply->checks.rbegin(), reply->checks.rend());
  size_t left = 0;
  for (const CheckOutcome& check : plot.checks) left += check.result != CheckResult::kContinued;
  plot.text.headline =
      format("%.0f%% of %zu checks let a token exit",
             100.0 * static_cast<double>(left) / plot.checks.size(), plot.checks.size());
  const auto& settings = reply->newest_settings().settings;
  if (!settings) return plot;
  plot.tau = settings->tau;
  if (settings->anneal_learned) {
    plot.text.caption +=
        " What scores are divided by before is each layer's own, as it was learnt.";
    return plot;
  }
  SpecBoundParams params;
  params.alpha = settings->alpha;
  params.anneal = settings->anneal;
  if (!params.anneal || !(params.alpha > 0)) {
    plot.text.caption += " All layers are held to the same standard: nothing is annealed.";
    return plot;
  }
  for (int l = plot.first_layer; l <= n_layers; ++l) {
    plot.temperatures.push_back(annealed_temperature(params, l, n_layers));
  }
  plot.text.caption +=
      " The dashed curve is the temperature T that scores are divided by before: hotter in early "
      "layers, whose certainty is often false.";
  return plot;
}

RatePlot rate_plot(const ReplyTrace* reply) {
  RatePlot plot;
  plot.text.empty = reply ? kWaiting : kNoReply;
  plot.text.caption =
      "How fast the text comes; the dashed line is the same model without speculation, measured "
      "on this machine along the way.";
  if (!reply || reply->slices.empty()) return plot;
  plot.tokens_per_second = points(*reply, tokens_per_second);
  if (plot.tokens_per_second.empty()) return plot;
  plot.text.empty.clear();
  plot.plain = reply->plain_tokens_per_second();
  plot.seconds = reply->seconds;
  plot.highest = std::max(highest(plot.tokens_per_second), plot.plain.value_or(0));
  if (const auto rate = reply->tokens_per_second()) {
    plot.text.headline = format("%.1f tokens/s", *rate);
    if (plot.plain) plot.text.headline += format(", plain %.1f", *plot.plain);
  }
  return plot;
}

GainPlot gain_plot(const ReplyTrace* reply) {
  GainPlot plot;
  plot.text.empty = reply && decodes_plainly(*reply) ? kPlainReply : reply ? kWaiting : kNoReply;
  plot.text.caption =
      "CR (compression): tokens that one pass through the whole model gives. Speedup: what is left "
      "of that after the drafting is paid for; above 1 speculation wins.";
  if (!reply || reply->slices.empty() || decodes_plainly(*reply)) return plot;
  plot.compression_rate =
      points(*reply, [](const RateSlice& s) { return static_cast<double>(s.tokens) / s.rounds; });
  if (const auto plain = reply->plain_tokens_per_second()) {
    plot.speedup =
        points(*reply, [&](const RateSlice& s) { return tokens_per_second(s) / *plain; });
  }
  if (plot.compression_rate.empty()) return plot;
  plot.text.empty.clear();
  plot.seconds = reply->seconds;
  plot.highest = std::max({highest(plot.compression_rate), highest(plot.speedup), 1.0});
  if (const auto speedup = reply->speedup())
    plot.text.headline = format("speedup %.2fx, ", *speedup);
  if (const auto cr = reply->compression_rate()) plot.text.headline += format("CR %.2f", *cr);
  return plot;
}

PlacePlot place_plot(const ReplyTrace* reply) {
  PlacePlot plot;
  plot.text.empty = nothing_drafted(reply);
  plot.text.caption =
      "How often the first, second, ... draft of a round was right, of those that were looked at: "
      "each builds on the ones before it.";
  if (!reply || sum(reply->drafts_place).total() == 0) return plot;
  plot.text.empty.clear();
  plot.places = reply->drafts_place;
  const DraftCount all = sum(plot.places);
  if (const auto rate = all.acceptance()) {
    plot.text.headline = format("%.0f%% right", 100 * *rate);
  }
  return plot;
}

PhasePlot phase_plot(const ReplyTrace* reply) {
  PhasePlot plot;
  plot.text.empty = reply ? kWaiting : kNoReply;
  plot.text.caption =
      "What a round's time goes to. Drafting is cheap layers for one token; verifying is all other "
      "layers, once for every token of the round.";
  if (!reply) return plot;
  double total = 0;
  for (const int64_t ns : reply->counters.ns)
    total += static_cast<double>(std::max<int64_t>(ns, 0));
  if (!(total > 0) || reply->counters.decoded_tokens == 0) return plot;
  plot.text.empty.clear();
  for (int i = 0; i < kPhases; ++i) {
    const double ns = static_cast<double>(std::max<int64_t>(reply->counters.ns[i], 0));
    plot.share[i] = ns / total;
    plot.token_ms[i] = 1e-6 * ns / reply->counters.decoded_tokens;
  }
  plot.text.headline = format("%.2f ms a token", 1e-6 * total / reply->counters.decoded_tokens);
  return plot;
}

const char* phase_meaning(Phase phase) {
  static constexpr const char* kMeanings[] = {
      "draft: the first layers, one token at a time, to guess what comes",
      "check: exit heads say whether the guess is sure enough",
      "verify: all remaining layers, for all tokens of the round at once",
      "logits: the last layer's scores for every word of the vocabulary",
      "sample: choosing each token from those scores",
  };
  return kMeanings[static_cast<int>(phase)];
}

}  // namespace specbound::gui
