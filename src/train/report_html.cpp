#include "train/report_html.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "train/svg.h"

namespace specbound {

namespace {

// ---- line plots: axes with round numbers, several series, a legend ----

// Colours come from the style sheet (classes s0..s7, f0..f7, grid, axis): they suit light and dark.

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // those that are no numbers are left out
  bool line = true;                               // else dots
};

struct Plot {
  std::string x_label, y_label;
  std::vector<PlotSeries> series;
  double x_min = 0, x_max = 0, y_min = 0, y_max = 0;  // max <= min: as the points need
  bool diagonal = false;                              // a line from corner to corner
};

constexpr int kWidth = 460, kHeight = 300;
constexpr int kLeft = 52, kRight = 12, kTop = 12, kBottom = 44;
constexpr int kLegendLine = 18;
constexpr int kColours = 8;
constexpr const char* kMiddle = "text-anchor=\"middle\"";

struct Range {
  double min, max;
};

// The range of the points, a little wider when they are all alike.
Range range_of(const Plot& plot, bool x) {
  const double low = x ? plot.x_min : plot.y_min, high = x ? plot.x_max : plot.y_max;
  if (high > low) return {low, high};
  Range range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const PlotSeries& series : plot.series) {
    for (const auto& point : series.points) {
      const double value = x ? point.first : point.second;
      if (!std::isfinite(value)) continue;
      range.min = std::min(range.min, value);
      range.max = std::max(range.max, value);
    }
  }
  if (range.min > range.max) return {0, 1};
  if (range.max - range.min < 1e-9 * (1 + std::abs(range.max))) {
    return {range.min - 0.5, range.max + 0.5};
  }
  return range;
}

// 1, 2 or 5 times a power of ten, about `n` of them in the range.
double tick_step(const Range& range, int n) {
  const double rough = (range.max - range.min) / n;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

class Canvas {
 public:
  explicit Canvas(const Plot& plot) : x_(range_of(plot, true)), y_(range_of(plot, false)) {}

  double x(double value) const {
    return kLeft + (value - x_.min) / (x_.max - x_.min) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y_.min) / (y_.max - y_.min) * (kHeight - kTop - kBottom);
  }

  std::string x_axis(const std::string& label) const {
    std::string out = svg_text((kLeft + kWidth - kRight) / 2, kHeight - 8, kMiddle, label);
    const double step = tick_step(x_, 6);
    for (double v = std::ceil(x_.min / step - 1e-6) * step; v <= x_.max + 1e-6 * step; v += step) {
      out += svg_line(x(v), kTop, x(v), kHeight - kBottom, "class=\"grid\"");
      out += svg_text(x(v), kHeight - kBottom + 16, kMiddle, number(v, step));
    }
    return out;
  }

  std::string y_axis(const std::string& label) const {
    const int middle = (kTop + kHeight - kBottom) / 2;
    const std::string upwards = format("%s transform=\"rotate(-90 12 %d)\"", kMiddle, middle);
    std::string out = svg_text(12, middle, upwards.c_str(), label);
    const double step = tick_step(y_, 5);
    for (double v = std::ceil(y_.min / step - 1e-6) * step; v <= y_.max + 1e-6 * step; v += step) {
      out += svg_line(kLeft, y(v), kWidth - kRight, y(v), "class=\"grid\"");
      out += svg_text(kLeft - 6, y(v) + 4, "text-anchor=\"end\"", number(v, step));
    }
    return out;
  }

  // The lines of both axes.
  static std::string corner() {
    return format("<path class=\"axis\" d=\"M%d %d V%d H%d\"/>\n", kLeft, kTop, kHeight - kBottom,
                  kWidth - kRight);
  }

  std::string diagonal() const {
    return svg_line(x(x_.min), y(y_.min), x(x_.max), y(y_.max), "class=\"axis dash\"");
  }

  std::string series(const PlotSeries& series, int colour) const {
    std::string out, path;
    for (const auto& [px, py] : series.points) {
      if (!std::isfinite(px) || !std::isfinite(py)) continue;
      const double sx = x(px), sy = std::clamp(y(py), double{kTop}, double{kHeight - kBottom});
      path += format("%s%.1f %.1f", path.empty() ? "M" : " L", sx, sy);
      // A few points are marked, so that one alone is seen too.
      if (!series.line || series.points.size() <= 40) {
        out += format("<circle class=\"f%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\">", colour, sx, sy) +
               format("<title>%s: %.4g, %.4g</title></circle>\n",
                      markup_escaped(series.name).c_str(), px, py);
      }
    }
    if (series.line && !path.empty()) {
      out += format("<path class=\"s%d\" d=\"", colour) + path + "\"/>\n";
    }
    return out;
  }

 private:
  static std::string number(double value, double step) {
    const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
    return format("%.*f", std::min(digits, 6), std::abs(value) < 1e-9 * step ? 0.0 : value);
  }
  Range x_, y_;
};

std::string svg_plot(const Plot& plot) {
  const Canvas canvas(plot);
  const int n = static_cast<int>(plot.series.size());
  const int columns = 2, legend = n > 1 ? (n + columns - 1) / columns * kLegendLine + 6 : 0;
  std::string out = format("<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", kWidth,
                           kHeight + legend, markup_escaped(plot.y_label).c_str());
  out += canvas.x_axis(plot.x_label) + canvas.y_axis(plot.y_label);
  if (plot.diagonal) out += canvas.diagonal();
  out += canvas.corner();
  for (int i = 0; i < n; ++i) {
    out += canvas.series(plot.series[static_cast<size_t>(i)], i % kColours);
    if (n < 2) continue;
    const int x = kLeft + i % columns * (kWidth - kLeft) / columns;
    const int y = kHeight + i / columns * kLegendLine + 4;
    out += svg_rect(x, y + 2, 14, 4, format("class=\"f%d\"", i % kColours));
    out += svg_text(x + 20, y + 9, "", plot.series[static_cast<size_t>(i)].name);
  }
  return out + "</svg>\n";
}

// The rules of the classes, for a style sheet that has the colours --fg --dim --line.
const char* svg_style() {
  return R"(svg text{font:11px system-ui,sans-serif;fill:var(--dim)}
.grid{stroke:var(--line);stroke-width:.6}.axis{stroke:var(--dim);fill:none}
.dash{stroke-dasharray:4 4}
.s0,.s1,.s2,.s3,.s4,.s5,.s6,.s7{fill:none;stroke-width:1.8}
.s0{stroke:#3b82c4}.s1{stroke:#e07b39}.s2{stroke:#3f9e5f}.s3{stroke:#c9485b}
.s4{stroke:#8a6fc8}.s5{stroke:#8f6d50}.s6{stroke:#d070b0}.s7{stroke:#7d8794}
.f0{fill:#3b82c4}.f1{fill:#e07b39}.f2{fill:#3f9e5f}.f3{fill:#c9485b}
.f4{fill:#8a6fc8}.f5{fill:#8f6d50}.f6{fill:#d070b0}.f7{fill:#7d8794}
)";
}

// ---- the page ----

constexpr const char* kStyle = R"(<style>
:root{color-scheme:light dark;--fg:#1a1a1a;--bg:#fff;--dim:#5c5c5c;--line:#d8d8d8}
@media(prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--dim:#a8a8a8;--line:#3c3c3c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:64rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:0 0 .2rem}
p{margin:.2rem 0 .8rem;color:var(--dim)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(24rem,1fr));gap:1.5rem}
.table{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.2rem .8rem .2rem 0;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto}
)";

std::string name_of(const HeadReport& report) {
  return format("%s, layer %d", head_kind_name(report.kind), report.layer);
}

std::string section(const char* title, const char* text, const Plot& plot) {
  return format("<section><h2>%s</h2><p>%s</p>\n", title, text) + svg_plot(plot) + "</section>\n";
}

Plot loss_plot(const TrainedHeads& trained) {
  Plot plot{"epoch", "KL, nats a row", {}};
  if (!trained.loss_curve.empty()) plot.series.push_back({"heads", trained.loss_curve});
  if (!trained.layer_loss_curve.empty()) {
    plot.series.push_back({"draft layers", trained.layer_loss_curve});
  }
  return plot;
}

Plot agreement_plot(const TrainedHeads& trained, int n_layers) {
  Plot plot{"layer", "agreement", {}};
  plot.x_max = n_layers;
  plot.y_max = 1;
  for (const HeadKind kind : kHeadKinds) {
    PlotSeries series{head_kind_name(kind), {}};
    for (const HeadReport& report : trained.reports) {
      if (report.kind == kind) series.points.emplace_back(report.layer, report.agreement);
    }
    std::sort(series.points.begin(), series.points.end());
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot depth_plot(const TrainedHeads& trained) {
  Plot plot{"drafts before, all right", "agreement", {}};
  plot.y_max = 1;
  for (const HeadReport& report : trained.reports) {
    if (report.depth_agreement.empty()) continue;
    PlotSeries series{name_of(report), {}};
    for (size_t k = 0; k < report.depth_agreement.size(); ++k) {
      series.points.emplace_back(static_cast<double>(k), report.depth_agreement[k]);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot calibration_plot(const TrainedHeads& trained, bool annealed) {
  Plot plot{"confidence", "agreement", {}};
  plot.x_max = plot.y_max = 1;
  plot.diagonal = true;
  for (const HeadReport& report : trained.reports) {
    PlotSeries series{name_of(report), {}};
    for (const ReliabilityBin& bin : annealed ? report.bins_annealed : report.bins) {
      if (bin.rows > 0) series.points.emplace_back(bin.confidence, bin.accuracy);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot tau_plot(const TrainedHeads& trained, bool leaving) {
  Plot plot{"tau", leaving ? "part of rows that leave" : "part of drafts accepted", {}};
  plot.x_max = plot.y_max = 1;
  for (const HeadReport& report : trained.reports) {
    PlotSeries series{name_of(report), {}};
    for (size_t i = 0; i < report.tau.size(); ++i) {
      // Where nobody leaves, nothing is accepted or refused.
      if (!leaving && report.leaving[i] == 0) continue;
      series.points.emplace_back(report.tau[i], leaving ? report.leaving[i] : report.accepted[i]);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string table(const TrainedHeads& trained) {
  std::string out =
      "<div class=\"table\"><table><tr><th>head</th><th>agreement</th><th>1 - TV</th>"
      "<th>KL at the start</th><th>KL at the end</th><th>calibration "
      "error</th><th>annealed</th><th>T learned</th><th>at that T</th></tr>\n";
  for (const HeadReport& report : trained.reports) {
    out += format(
        "<tr><td>%s</td><td>%.1f %%</td><td>%.1f %%</td><td>%.3f</td><td>%.3f</td><td>%.1f %%</td>"
        "<td>%.1f %%</td><td>%.2f</td><td>%.1f %%</td></tr>\n",
        name_of(report).c_str(), 100 * report.agreement, 100 * report.overlap, report.kl_start,
        report.kl_end, 100 * report.ece, 100 * report.ece_annealed,
        static_cast<double>(report.temperature), 100 * report.ece_learned);
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string report_html(const TrainedHeads& trained, const ReportSource& source) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Exit "
      "heads: " +
      markup_escaped(source.model) + "</title>\n" + kStyle + svg_style() + "</style>\n" +
      "</head><body>\n<h1>Exit heads: " + markup_escaped(source.model) + "</h1>\n<p>" +
      markup_escaped(source.data);
  out += format(": %lld positions learnt, %lld kept apart and measured here; %.0f s",
                static_cast<long long>(trained.rows),
                static_cast<long long>(trained.validation_rows), trained.seconds);
  if (trained.tokens_x_layers_per_second > 0) {
    out += format(", %.0f tokens x layers per second", trained.tokens_x_layers_per_second);
  }
  out += "; matrices by " + markup_escaped(trained.arithmetic) + ".</p>\n" + table(trained) +
         "<div class=\"plots\">\n";
  const Plot loss = loss_plot(trained);
  if (!loss.series.empty()) {
    out +=
        section("Loss",
                "Divergence from the model's own distribution, sharpened for learning (its logits "
                "multiplied by a constant above 1), mean over heads; draft layers learn apart.",
                loss);
  }
  out += section("Agreement by layer", "How often the head's first choice is the model's.",
                 agreement_plot(trained, source.n_layers));
  const Plot depth = depth_plot(trained);
  if (!depth.series.empty()) {
    out += section(
        "Agreement by step",
        "Of drafts behind right ones: of chained heads and layers on their own state, of medusa "
        "and hydra heads by place.",
        depth);
  }
  out += section("Calibration", "At temperature 1; on the dashed line confidence can be trusted.",
                 calibration_plot(trained, false));
  out += section("Calibration, annealed", "At T = 1 + 0.2 (1 - layer / layers).",
                 calibration_plot(trained, true));
  out += section("Leaving by tau", "Rows whose annealed confidence reaches tau.",
                 tau_plot(trained, true));
  out += section("Acceptance by tau", "Of those that leave, drafts that the model takes.",
                 tau_plot(trained, false));
  return out + "</div></body></html>\n";
}

}  // namespace specbound
