// Draws the plots of the live panel (gui/model/plots.h), one under the other or in two columns.
#pragma once

#include <imgui.h>

#include "gui/model/plots.h"
#include "gui/view/probe.h"

namespace specbound::gui {

class PlotViews {
 public:
  // All of them, as wide as the window, below each other or side by side; the caller's window
  // scrolls. `reply`: nullptr for none yet.
  void draw(const TraceModel& trace, const ReplyTrace* reply, Probe& probe);

 private:
  void update(const TraceModel& trace, const ReplyTrace* reply);
  void draw_exits(ImVec2 size);
  void draw_checks(ImVec2 size);
  void draw_rate(ImVec2 size);
  void draw_gain(ImVec2 size);
  void draw_places(ImVec2 size);
  void draw_phases(ImVec2 size);

  // What the figures below are of.
  uint64_t reply_ = 0, version_ = 0;
  const TraceModel* trace_ = nullptr;
  ExitPlot exits_;
  CheckPlot checks_;
  RatePlot rate_;
  GainPlot gain_;
  PlacePlot places_;
  PhasePlot phases_;
};

}  // namespace specbound::gui
