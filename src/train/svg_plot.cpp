#include "train/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error.h"
#include "train/svg.h"

namespace specbound {

namespace {

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

}  // namespace

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

}  // namespace specbound
