#include "tools/bench_report.h"

#include <cstdio>

#include "error.h"
#include "json/json_writer.h"
#include "tools/cost_report.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

// Work per second from seconds: the fastest becomes the most.
Spread rate(const Spread& seconds, double work) {
  const auto of = [&](double s) { return s > 0 ? work / s : 0; };
  return {of(seconds.median), of(seconds.max), of(seconds.min)};
}

Spread relative(const Spread& seconds, double to) {
  const double factor = to > 0 ? 1 / to : 0;
  return {seconds.median * factor, seconds.min * factor, seconds.max * factor};
}

// The positions before a token, on average over a decoding run.
double mean_context(const ContextCosts& costs, int n_gen) {
  return costs.context + 0.5 * (n_gen - 1);
}

Spread read_rate(const BenchReport& r, const ContextCosts& costs) {
  return rate(costs.token, r.bytes.token(mean_context(costs, r.n_gen)));
}

// Of the read bandwidth.
std::string share_text(const std::optional<double>& share, const ReadBandwidth& of) {
  if (share) return format("%.1f%%", 100 * *share);
  return of.known() ? "cached" : "unknown";
}

std::optional<double> reading_seconds(const BenchReport& r, const ContextCosts& costs) {
  if (!r.read_bandwidth.known()) return std::nullopt;
  return r.bytes.row(costs.context) / r.read_bandwidth.rate.median;
}

// What a drafted row is held against.
struct RowParts {
  double layers, checks;
  double over_layers(double seconds) const { return layers > 0 ? seconds / layers - 1 : 0; }
  double over_both(double seconds) const { return seconds / (layers + checks) - 1; }
};
RowParts parts_of(const DraftedRow& row, const ContextCosts& costs, const DraftCosts& draft) {
  return {row.exit_layer * costs.layer.median,
          static_cast<double>(row.check_layers.size()) * draft.check.device.median};
}

std::string layers_text(const std::vector<int>& layers) {
  return joined(layers, ",", [](int layer) { return std::to_string(layer); });
}

Json context_json(const BenchReport& r, size_t i) {
  const ContextCosts& c = r.contexts[i];
  const Spread bytes = read_rate(r, c);
  const std::optional<double> reading = reading_seconds(r, c);
  std::optional<double> beside;
  if (reading) beside = c.layer.median - *reading;
  Json verify = Json::array(), rows = Json::array();
  for (int m = 1; m <= kMaxRows; ++m) {
    verify.push_back({{"rows", m},
                      {"seconds", spread_json(c.verify[m])},
                      {"relative", spread_json(relative(c.verify[m], c.verify[1].median))}});
  }
  for (const DraftedRow& row : r.drafts[i].rows) {
    const RowParts parts = parts_of(row, c, r.drafts[i]);
    rows.push_back({{"exit_layer", row.exit_layer},
                    {"check_layers", row.check_layers},
                    {"seconds", spread_json(row.seconds)},
                    {"layers_seconds", parts.layers},
                    {"checks_seconds", parts.checks},
                    {"over_layers_and_checks", parts.over_both(row.seconds.median)},
                    {"over_layers", parts.over_layers(row.seconds.median)}});
  }
  return {{"context", c.context},
          {"decode",
           {{"tokens_per_second", spread_json(rate(c.token, 1))},
            {"bytes_per_token", r.bytes.token(mean_context(c, r.n_gen))},
            {"bytes_per_second", spread_json(bytes)},
            {"share_of_read_bandwidth", or_null(r.read_bandwidth.share(bytes.median))}}},
          {"layer",
           {{"seconds", spread_json(c.layer)},
            {"bytes", r.bytes.row(c.context)},
            {"reading_seconds", or_null(reading)},
            {"beside_reading_seconds", or_null(beside)}}},
          {"verify", verify},
          {"drafted_rows", rows}};
}

// ---- replay ----

std::optional<double> plain_share(const ReplayReport& r, const ReplayedGroup& g) {
  return r.read_bandwidth.share(rate(g.plain_token, r.bytes.token(r.prompt)).median);
}

double mean_speedup(const ReplayedGroup& g) {
  double sum = 0;
  for (const ReplayedCell& cell : g.cells) sum += cell.speedup.median;
  return g.cells.empty() ? 0 : sum / static_cast<double>(g.cells.size());
}

const char* task_of(double compression_rate) {
  for (const PublishedTask& task : kPublishedTasks) {
    if (task.compression_rate == compression_rate) return task.name;
  }
  return nullptr;
}

constexpr const char* kReplayLabel =
    "REPLAY, a prediction: real layers, checks and verification of a model of random weights; "
    "which drafts left where and were right is not this model's";

Json cell_json(const ReplayedCell& cell) {
  const Counters& c = cell.counters;
  const double cr = c.rounds > 0 ? static_cast<double>(c.decoded_tokens) / c.rounds : 0;
  return {{"compression_rate", cr},
          {"acceptance", cell.rounds.acceptance()},
          {"mean_exit_layer", cell.rounds.mean_exit_layer()},
          {"rounds", cell.rounds.rounds.size()},
          {"predicted_speedup", spread_json(cell.speedup)},
          {"round_seconds", spread_json(cell.round)},
          {"phase_seconds", phases_json(measured_seconds(c))}};
}

}  // namespace

void print_report(const BenchReport& r) {
  std::printf("\n%-12s %9s %17s %8s %11s %9s  %s\n%83s", "decode", "tok/s", "min - max", "GB/s",
              "of reading", "layer us", "rows in passes of one row", "");
  constexpr int kRows[] = {2, 4, 8, kMaxRows};
  for (const int rows : kRows) std::printf(" %5d", rows);
  for (const ContextCosts& c : r.contexts) {
    const Spread tokens = rate(c.token, 1), bytes = read_rate(r, c);
    const auto share = r.read_bandwidth.share(bytes.median);
    std::printf("\ncontext %-4d %9.2f %8.2f-%8.2f %8.1f %11s %9.2f      ", c.context, tokens.median,
                tokens.min, tokens.max, 1e-9 * bytes.median,
                share_text(share, r.read_bandwidth).c_str(), 1e6 * c.layer.median);
    for (const int rows : kRows) {
      std::printf(" %5.3f", relative(c.verify[rows], c.verify[1].median).median);
    }
  }
  std::printf("\n");
}

Json report_json(const BenchReport& report) {
  Json contexts = Json::array(), checks = Json::array();
  for (size_t i = 0; i < report.contexts.size(); ++i) contexts.push_back(context_json(report, i));
  for (const CheckTime& c : report.checks) {
    checks.push_back({{"kind", head_kind_name(c.kind)},
                      {"tokens", c.tokens},
                      {"device_seconds", spread_json(c.device)},
                      {"call_seconds", spread_json(c.call)}});
  }
  Json launches = nullptr;
  if (report.launches) {
    launches = {{"host_seconds", spread_json(report.launches->launch)},
                {"graph_seconds", spread_json(report.launches->graph)},
                {"layer_seconds", spread_json(report.launches->layer)}};
  }
  return {{"contexts", contexts}, {"checks", checks}, {"launches", launches}};
}

void print_replay(const ReplayReport& r) {
  std::printf("\n%s\n", kReplayLabel);
  if (!r.trace.empty()) {
    const ReplayedGroup& g = r.groups[0].found;
    const ReplayedCell& cell = g.cells[0];
    std::printf(
        "%zu rounds of a trace, check layers %s: CR %.2f, mean exit %.1f, %.0f%% of drafts right\n"
        "  predicted speedup %.2fx (%.2f - %.2f); a round %.1f us, break-even CR %.2f\n",
        cell.rounds.rounds.size(), layers_text(cell.rounds.check_layers).c_str(),
        cell.rounds.compression_rate(), cell.rounds.mean_exit_layer(),
        100 * cell.rounds.acceptance(), cell.speedup.median, cell.speedup.min, cell.speedup.max,
        1e6 * cell.round.median, g.break_even.median);
  } else {
    std::printf(
        "predicted speedup by compression rate (CR); break-even: the CR that just pays\n\n");
    std::printf("%-27s", "");
    for (const double cr : r.compression_rates) {
      std::printf(" %7s", task_of(cr) ? task_of(cr) : "");
    }
    std::printf("\n%6s %4s %15s", "checks", "exit", "break-even CR");
    for (const double cr : r.compression_rates) std::printf(" %7.2f", cr);
    std::printf(" %7s\n", "mean");
    for (const ReplayReport::Group& group : r.groups) {
      std::printf("%6d %4g %15.2f", group.checks, group.mean_exit, group.found.break_even.median);
      for (const ReplayedCell& cell : group.found.cells) {
        std::printf(" %6.2fx", cell.speedup.median);
      }
      std::printf(" %6.2fx\n", mean_speedup(group.found));
    }
  }
  const ReplayedGroup& first = r.groups[0].found;
  std::printf("plain decoding in the same run: %.2f tok/s, of reading: %s\n",
              rate(first.plain_token, 1).median,
              share_text(plain_share(r, first), r.read_bandwidth).c_str());
}

Json replay_json(const ReplayReport& r) {
  Json groups = Json::array();
  for (const ReplayReport::Group& group : r.groups) {
    Json cells = Json::array();
    for (size_t i = 0; i < group.found.cells.size(); ++i) {
      Json cell = cell_json(group.found.cells[i]);
      if (r.trace.empty()) {
        const char* task = task_of(r.compression_rates[i]);
        cell["asked_compression_rate"] = r.compression_rates[i];
        cell["task"] = task ? Json(task) : Json(nullptr);
      }
      cells.push_back(std::move(cell));
    }
    Json entry = {{"check_layers", group.found.cells[0].rounds.check_layers},
                  {"rows", group.found.cells[0].rounds.w_max},
                  {"plain_tokens_per_second", spread_json(rate(group.found.plain_token, 1))},
                  {"plain_share_of_read_bandwidth", or_null(plain_share(r, group.found))},
                  {"break_even_compression_rate", spread_json(group.found.break_even)},
                  {"mean_predicted_speedup", mean_speedup(group.found)},
                  {"cells", cells}};
    if (r.trace.empty()) {
      entry["mean_exit"] = group.mean_exit;
      entry["checks"] = group.checks;
    }
    groups.push_back(std::move(entry));
  }
  return {{"label", kReplayLabel},
          {"trace", r.trace.empty() ? Json(nullptr) : Json(r.trace)},
          {"break_even_by", "measured seconds of a round over measured seconds of a plain token"},
          {"prompt_tokens", r.prompt},
          {"groups", groups}};
}

}  // namespace specbound
