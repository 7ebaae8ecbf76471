// What lies under everything in a frame: rectangles of one colour, which the window clears before
// it draws. A software renderer clears several times faster than it draws.
#pragma once

#include <imgui.h>

#include <vector>

namespace specbound::gui {

struct Backdrop {
  ImVec2 min, max;  // pixels of the window
  ImU32 color;
};

// Of the frame being drawn; the first is the whole window. MainView begins it anew.
std::vector<Backdrop>& backdrops();

}  // namespace specbound::gui
