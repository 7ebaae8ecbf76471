#include "train/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error.h"

namespace specbound {

namespace {

constexpr int kWidth = 460, kHeight = 300;
constexpr int kLeft = 52, kRight = 12, kTop = 12, kBottom = 44;
constexpr int kLegendLine = 18;
constexpr int kColours = 8;

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

  std::string x_axis(const Plot& plot) const {
    std::string out;
    const double x_step = tick_step(x_, 6);
    for (double v = std::ceil(x_.min / x_step - 1e-6) * x_step; v <= x_.max + 1e-6 * x_step;
         v += x_step) {
      out += format("<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", x(v),
                    kTop, x(v), kHeight - kBottom);
      out += format("<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x(v),
                    kHeight - kBottom + 16, number(v, x_step).c_str());
    }
    out += format("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                  (kLeft + kWidth - kRight) / 2, kHeight - 8, html_escaped(plot.x_label).c_str());
    return out;
  }

  std::string y_axis(const Plot& plot) const {
    std::string out;
    const double y_step = tick_step(y_, 5);
    for (double v = std::ceil(y_.min / y_step - 1e-6) * y_step; v <= y_.max + 1e-6 * y_step;
         v += y_step) {
      out += format("<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", kLeft,
                    y(v), kWidth - kRight, y(v));
      out += format("<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 6,
                    y(v) + 4, number(v, y_step).c_str());
    }
    const int middle = (kTop + kHeight - kBottom) / 2;
    out += format(
        "<text x=\"12\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 12 "
        "%d)\">%s</text>\n",
        middle, middle, html_escaped(plot.y_label).c_str());
    return out;
  }

  // The lines of both axes.
  static std::string corner() {
    return format("<path class=\"axis\" d=\"M%d %d V%d H%d\"/>\n", kLeft, kTop, kHeight - kBottom,
                  kWidth - kRight);
  }

  std::string diagonal() const {
    return format("<line class=\"axis dash\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                  x(x_.min), y(y_.min), x(x_.max), y(y_.max));
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
               format("<title>%s: %.4g, %.4g</title></circle>\n", html_escaped(series.name).c_str(),
                      px, py);
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

std::string opening(const std::string& label, int height) {
  return format("<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", kWidth, height,
                html_escaped(label).c_str());
}

}  // namespace

std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

std::string svg_plot(const Plot& plot) {
  const Canvas canvas(plot);
  const int n = static_cast<int>(plot.series.size());
  const int columns = 2, legend = n > 1 ? (n + columns - 1) / columns * kLegendLine + 6 : 0;
  std::string out = opening(plot.y_label, kHeight + legend);
  out += canvas.x_axis(plot) + canvas.y_axis(plot);
  if (plot.diagonal) out += canvas.diagonal();
  out += canvas.corner();
  for (int i = 0; i < n; ++i) {
    out += canvas.series(plot.series[static_cast<size_t>(i)], i % kColours);
    if (n < 2) continue;
    const int x = kLeft + i % columns * (kWidth - kLeft) / columns;
    const int y = kHeight + i / columns * kLegendLine + 4;
    out += format("<rect class=\"f%d\" x=\"%d\" y=\"%d\" width=\"14\" height=\"4\"/>", i % kColours,
                  x, y + 2);
    out += format("<text x=\"%d\" y=\"%d\">%s</text>\n", x + 20, y + 9,
                  html_escaped(plot.series[static_cast<size_t>(i)].name).c_str());
  }
  return out + "</svg>\n";
}

std::string svg_bars(const BarPlot& plot) {
  const auto n = static_cast<int>(plot.bars.size());
  Plot frame{"", plot.y_label, {{"", {}}}};
  frame.x_min = 0;
  frame.x_max = std::max(n, 1);
  for (const Bar& bar : plot.bars) {
    if (std::isfinite(bar.value)) frame.y_max = std::max(frame.y_max, 1.1 * bar.value);
  }
  if (frame.y_max <= 0) frame.y_max = 1;
  const Canvas canvas(frame);
  std::string out = opening(plot.y_label, kHeight) + canvas.y_axis(frame) + canvas.corner();
  for (int i = 0; i < n; ++i) {
    const auto& [name, value] = plot.bars[static_cast<size_t>(i)];
    const double left = canvas.x(i + 0.2), right = canvas.x(i + 0.8), middle = canvas.x(i + 0.5);
    out += format("<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", middle,
                  kHeight - kBottom + 16, html_escaped(name).c_str());
    if (!std::isfinite(value)) continue;
    const double top = canvas.y(std::max(value, 0.0));
    out += format("<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                  i % kColours, left, top, right - left, kHeight - kBottom - top);
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3g</text>\n", middle,
                  top - 4, value);
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

std::string svg_file(const std::string& svg) {
  constexpr std::string_view kOpen = "<svg ";
  const size_t end = svg.find('\n');
  SB_CHECK(svg.starts_with(kOpen) && end != svg.npos);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " +
         svg.substr(kOpen.size(), end + 1 - kOpen.size()) +
         "<style>\nsvg{background:#fff;--fg:#1a1a1a;--dim:#5c5c5c;--line:#d8d8d8}\n" +
         "@media(prefers-color-scheme:dark){svg{background:#161616;--fg:#e8e8e8;--dim:#a8a8a8;"
         "--line:#3c3c3c}}\n" +
         svg_style() + "</style>\n" + svg.substr(end + 1);
}

}  // namespace specbound
