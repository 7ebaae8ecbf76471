#include "tools/cost_report.h"

#include <cstdio>
#include <numeric>

#include "error.h"
#include "system/number_text.h"

namespace specbound {

using Json = nlohmann::ordered_json;

void print_costs(const CostModel& costs) {
  const double layer = costs.layer[1];
  std::printf("costs: a plain token %.1f us (%.0f tok/s), a layer %.2f us, logits %.1f us\n",
              1e6 * costs.plain_token, costs.plain_token > 0 ? 1 / costs.plain_token : 0,
              1e6 * layer, 1e6 * costs.logits[1]);
  if (costs.first_layers > 0) {
    std::printf(
        "  of the first %d layers, on the GPU, %.2f us each, and %.1f us of crossing over\n",
        costs.first_layers, 1e6 * costs.first_layer[1], 1e6 * costs.first_pass);
  }
  std::printf("  all layers and logits over rows, against one:");
  for (const int rows : {2, 3, 4, 5, 6, 7, 8, 12, 16}) {
    std::printf(" %d: %.2f", rows, costs.verify(rows) / costs.verify(1));
  }
  std::printf("\n  a check, in layers:");
  for (const CheckCost& c : costs.checks) {
    if (c.kind == CostModel::kDraw) continue;
    std::printf(" %s %d: %.2f", c.kind.c_str(), c.tokens, layer > 0 ? c.seconds / layer : 0);
  }
  std::printf("\n");
}

nlohmann::ordered_json costs_json(const CostModel& costs) {
  Json layer = Json::array(), first = Json::array(), logits = Json::array(), verify = Json::array(),
       checks = Json::array();
  for (int rows = 1; rows <= CostModel::kRows; ++rows) {
    layer.push_back(costs.layer[rows]);
    if (costs.first_layers > 0) first.push_back(costs.first_layer[rows]);
    logits.push_back(costs.logits[rows]);
    verify.push_back(costs.verify(rows));
  }
  for (const CheckCost& c : costs.checks) {
    checks.push_back({{"kind", c.kind},
                      {"tokens", c.tokens},
                      {"seconds", c.seconds},
                      {"layers", costs.layer[1] > 0 ? c.seconds / costs.layer[1] : 0}});
  }
  return {{"n_layers", costs.n_layers},
          {"vocab_size", costs.vocab_size},
          {"layer", layer},
          {"first_layers", costs.first_layers},
          {"first_layer", first},
          {"first_pass", costs.first_pass},
          {"logits", logits},
          {"verify", verify},
          {"pass", costs.pass},
          {"checks", checks},
          {"plain_token", costs.plain_token},
          {"argmax", costs.argmax},
          {"row", costs.row},
          {"round", costs.round}};
}

double check_share(const std::array<double, kPhases>& seconds) {
  const double check = seconds[static_cast<int>(Phase::kCheck)];
  const double all = check + seconds[static_cast<int>(Phase::kDraft)];
  return all > 0 ? check / all : 0;
}

double check_share_of_all(const std::array<double, kPhases>& seconds) {
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return all > 0 ? seconds[static_cast<int>(Phase::kCheck)] / all : 0;
}

Json phases_json(const std::array<double, kPhases>& seconds) {
  Json json = Json::object();
  for (int i = 0; i < kPhases; ++i) json[kPhaseNames[i]] = seconds[i];
  return json;
}

std::array<double, kPhases> measured_seconds(const Counters& counters) {
  std::array<double, kPhases> seconds{};
  for (int i = 0; i < kPhases; ++i) seconds[i] = 1e-9 * static_cast<double>(counters.ns[i]);
  return seconds;
}

double total_speedup(const MeasuredSpeedup& measured) {
  return measured.speculative_seconds > 0 ? measured.plain_seconds / measured.speculative_seconds
                                          : 0;
}

double counted_speedup(const MeasuredSpeedup& measured, const ReplayResult& replayed) {
  return measured.priced_seconds > 0 ? replayed.plain_seconds / measured.priced_seconds : 0;
}

std::string describe_settings(const HeadDefaults& settings) {
  if (settings.w_max == 1) return "plain decoding";
  std::string layers;
  for (const int layer : settings.check_layers) {
    if (layer <= settings.d_max) layers += (layers.empty() ? "" : ",") + std::to_string(layer);
  }
  std::string text = format("%s heads at layer%s %s", head_kind_name(settings.kind),
                            layers.find(',') == std::string::npos ? "" : "s", layers.c_str());
  if (settings.kind != HeadKind::kFull) text += format(", shortlist %d", settings.shortlist);
  text += format(", alpha %g, tau %g", settings.alpha, settings.tau);
  return text + format(", up to %d rows", settings.w_max);
}

Json settings_json(const HeadDefaults& settings) {
  return {{"kind", head_kind_name(settings.kind)},
          {"check_layers", settings.check_layers},
          {"shortlist", settings.shortlist},
          {"alpha", shortest_decimal(settings.alpha)},
          {"tau", shortest_decimal(settings.tau)},
          {"d_max", settings.d_max},
          {"w_max", settings.w_max}};
}

}  // namespace specbound
