// The bar over the live panel while a trace file is replayed: play and pause, steps by round and by
// token, how far, how fast, and an end to it.
#pragma once

#include "gui/model/app_state.h"
#include "gui/view/probe.h"

namespace specbound::gui {

class ReplayBar {
 public:
  // Draws nothing without a replay.
  void draw(AppState& state, Probe& probe);
};

}  // namespace specbound::gui
