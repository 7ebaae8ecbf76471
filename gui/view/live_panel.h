// The live panel: the layer map over the plots, for the reply that is looked at. Fills the region
// of the window that it is drawn in; where that is small, a switch chooses one of the two.
#pragma once

#include "gui/model/app_state.h"
#include "gui/model/layer_map.h"
#include "gui/view/layer_map_view.h"
#include "gui/view/plot_views.h"
#include "gui/view/probe.h"

namespace specbound::gui {

class LivePanel {
 public:
  // All of it: the replay's bar (while a file is replayed), the map, the plots.
  void draw(AppState& state, Probe& probe);

 private:
  void draw_both(AppState& state, Probe& probe, const ReplyTrace* reply);
  void draw_one(AppState& state, Probe& probe, const ReplyTrace* reply);
  void draw_plots(AppState& state, Probe& probe, const ReplyTrace* reply);

  MapFocus focus_;
  LayerMapView map_;
  PlotViews plots_;
  float map_share_ = 0.6f;  // of the height
  bool dragged_ = false;    // the person chose it; else the map has what it needs
  bool on_plots_ = false;   // where only one has room
  bool playing_ = false;    // a replay, in the newest frame
};

}  // namespace specbound::gui
