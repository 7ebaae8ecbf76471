#include "app/spec_bench_sweep.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "decode/round.h"
#include "error.h"
#include "train/svg_plot.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kParameters[] = {"tau", "alpha", "d_max", "w_max"};

// `values` and the one that is set, ascending.
std::vector<double> around(std::vector<double> values, double set) {
  // A float's 0.55 is the 0.55 of the list.
  const auto same = [set](double v) { return std::abs(v - set) < 1e-6; };
  if (std::none_of(values.begin(), values.end(), same)) values.push_back(set);
  std::sort(values.begin(), values.end());
  return values;
}

// The bounds that let in more heads each. One before any layer is within every bound.
std::vector<int> depths(const std::vector<int>& head_layers) {
  std::vector<int> out;
  for (const int layer : head_layers) {
    const int depth = std::max(layer, 1);
    if (out.empty() || depth > out.back()) out.push_back(depth);
  }
  return out;
}

// At most `n` of the layers, the ends among them.
std::vector<double> thinned(const std::vector<int>& layers, size_t n) {
  std::vector<double> out;
  const size_t kept = std::min(n, layers.size());
  for (size_t i = 0; i < kept; ++i) {
    out.push_back(layers[kept > 1 ? i * (layers.size() - 1) / (kept - 1) : 0]);
  }
  return out;
}

}  // namespace

std::vector<SweepPoint> sweep_points(const SpeculationFlags& base, const SpecBoundParams& setting,
                                     const std::vector<int>& head_layers) {
  if (head_layers.empty()) {
    throw Error(
        ErrorCode::kUsage,
        "--sweep: expected a drafter with exit heads, whose settings can move (--speculator "
        "specbound)");
  }
  SpeculationFlags fixed = base;
  fixed.controller = false;
  std::vector<SweepPoint> points;
  const auto add = [&](const std::string& parameter, double value, auto&& change) {
    SweepPoint point{parameter, value, "", {format("%s-%g", parameter.c_str(), value), fixed}};
    change(point.drafter.flags->specbound);
    points.push_back(std::move(point));
  };
  for (const double v : around({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, setting.tau)) {
    add("tau", v, [v](SpecBoundFlags& f) { f.tau = static_cast<float>(v); });
  }
  for (const double v : around({0, 0.1, 0.2, 0.4, 0.8}, setting.alpha)) {
    add("alpha", v, [v](SpecBoundFlags& f) { f.alpha = static_cast<float>(v); });
  }
  for (const double v : thinned(depths(head_layers), 8)) {
    add("d_max", v, [v](SpecBoundFlags& f) {
      f.d_max = static_cast<int>(v);
      f.check_layers.emplace();
    });
  }
  for (const double v : around({2, 3, 4, 6, 8, 12, kMaxRows}, setting.w_max)) {
    if (v > 1) add("w_max", v, [v](SpecBoundFlags& f) { f.w_max = static_cast<int>(v); });
  }
  const auto add_bar = [&](const char* label, const char* name, auto&& change) {
    SweepPoint point{"", 0, label, {name, fixed}};
    change(point.drafter.flags->specbound);
    points.push_back(std::move(point));
  };
  add_bar("all", "setting", [](SpecBoundFlags&) {});
  add_bar("no annealing", "no-annealing", [](SpecBoundFlags& f) { f.no_anneal = true; });
  add_bar("no depth bound", "no-depth-bound", [](SpecBoundFlags& f) {
    f.no_depth_bound = true;
    f.check_layers.emplace();
  });
  add_bar("no width bound", "no-width-bound", [](SpecBoundFlags& f) { f.no_width_bound = true; });
  return points;
}

std::vector<std::pair<std::string, std::string>> sweep_figures(
    std::span<const SweepPoint> points, std::span<const SpecBenchResult> results) {
  SB_CHECK(points.size() == results.size());
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string parameter : kParameters) {
    Plot plot{parameter, "speedup and tokens a round", {{"SD", {}}, {"CR", {}}}};
    for (size_t i = 0; i < points.size(); ++i) {
      if (points[i].parameter != parameter) continue;
      plot.series[0].points.emplace_back(points[i].value, results[i].overall.speedup.ratio);
      plot.series[1].points.emplace_back(points[i].value, results[i].overall.compression_rate);
    }
    files.emplace_back("figure3-" + parameter + ".svg", svg_file(svg_plot(plot)));
  }
  BarPlot bars{"speedup", {}};
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].parameter.empty()) {
      bars.bars.push_back({points[i].label, results[i].overall.speedup.ratio});
    }
  }
  files.emplace_back("figure4.svg", svg_file(svg_bars(bars)));
  return files;
}

std::string sweep_table(std::span<const SweepPoint> points,
                        std::span<const SpecBenchResult> results) {
  SB_CHECK(points.size() == results.size());
  std::string out = "Figures 3 and 4: one setting moved at a time, the controller off\n" +
                    format("%-16s  %5s  %6s  95 %% interval\n", "", "CR", "SD");
  for (size_t i = 0; i < points.size(); ++i) {
    const SweepPoint& p = points[i];
    const std::string name =
        p.parameter.empty() ? p.label : format("%s %g", p.parameter.c_str(), p.value);
    const SpecBenchScore& s = results[i].overall;
    out += format("%-16s  %5.2f  %5.2fx  [%.3f, %.3f]\n", name.c_str(), s.compression_rate,
                  s.speedup.ratio, s.speedup.low, s.speedup.high);
  }
  return out;
}

Json sweep_json(std::span<const SweepPoint> points, std::span<const SpecBenchResult> results) {
  SB_CHECK(points.size() == results.size());
  Json figure3 = Json::object(), figure4 = Json::array();
  for (size_t i = 0; i < points.size(); ++i) {
    const SpecBenchScore& s = results[i].overall;
    Json entry = {{"speedup", s.speedup.ratio},
                  {"speedup_interval_95", {s.speedup.low, s.speedup.high}},
                  {"compression_rate", s.compression_rate}};
    if (points[i].parameter.empty()) {
      entry["variant"] = points[i].label;
      figure4.push_back(std::move(entry));
    } else {
      entry["value"] = points[i].value;
      figure3[points[i].parameter].push_back(std::move(entry));
    }
  }
  return {{"figure_3", std::move(figure3)}, {"figure_4", std::move(figure4)}};
}

}  // namespace specbound
