// Line plots as SVG: axes with round numbers, several series, a legend. Colours come from the style
// sheet of the page (classes s0..s7, f0..f7, grid, axis), so that they suit light and dark.
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

// The rules of the classes, for a style sheet that has the colours --fg --dim --line.
const char* svg_style();

}  // namespace specbound
