// Idle learning, where it is looked after among the controls, and the line that asks once whether a
// model may become faster.
#pragma once

#include "gui/model/app_state.h"
#include "gui/view/probe.h"

namespace specbound::gui {

// What it brings, why it is off or how far it is, and the button that changes that.
void draw_learning(AppState& state, Probe& probe);

// Across the window, while it is to be asked; nothing else.
void draw_learning_offer(AppState& state, Probe& probe);

}  // namespace specbound::gui
