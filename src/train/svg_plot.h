// Line and bar plots as SVG: axes with round numbers, several series, a legend. Colours come from a
// style sheet (classes s0..s7, f0..f7, grid, axis), a page's or the file's own, so that they suit
// light and dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace specbound {

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

std::string svg_plot(const Plot& plot);

struct Bar {
  std::string name;
  double value;  // from 0 on; what is no number has no bar
};
struct BarPlot {
  std::string y_label;
  std::vector<Bar> bars;
};
std::string svg_bars(const BarPlot& plot);

// The rules of the classes, for a style sheet that has the colours --fg --dim --line.
const char* svg_style();
// What svg_plot() or svg_bars() made as a file of its own, which brings its style.
std::string svg_file(const std::string& svg);

// `text` where markup stands around it.
std::string html_escaped(const std::string& text);

}  // namespace specbound
