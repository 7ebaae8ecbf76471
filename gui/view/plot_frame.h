// The frame that the plots of the live panel share: title and headline, axes with their units, grid
// lines, and the caption under it.
#pragma once

#include <imgui.h>

#include <string>

#include "gui/model/plots.h"

namespace specbound::gui {

// Where values lie on the screen: x from `x_min` to `x_max`, y from 0 to y.max.
struct PlotArea {
  ImVec2 min, max;
  double x_min = 0, x_max = 1;
  double y_max = 1;

  float x(double value) const;
  float y(double value) const;
  float width() const { return max.x - min.x; }
};

// Draws title and headline, and takes `height` for what is between them and the caption; gives that
// space. Call end_plot() with what it drew.
ImVec2 begin_plot(const char* title, const PlotText& text, ImVec2 size);
void end_plot(const PlotText& text, ImVec2 size);
// The height that title and caption take at this width.
float plot_text_height(const PlotText& text, float width);

// In place of a plot.
void draw_empty_plot(const PlotText& text, ImVec2 size);

// The area inside `size` at the cursor, with the y axis' labels and grid drawn, room for the x
// axis' labels below, and `y_name` above the axis.
PlotArea plot_area(ImVec2 size, const Axis& y, const char* y_name, float right = 0);
// Labels 0 .. x_max under the area.
void draw_time_axis(const PlotArea& area, double seconds);
// A label centred under x, and the axis' name at its right end.
void draw_x_label(const PlotArea& area, float x, const std::string& text, ImU32 color);
void draw_x_name(const PlotArea& area, const char* name);

}  // namespace specbound::gui
