// "What is this?": speculation in five sentences and a picture.
#pragma once

namespace specbound::gui {

class Probe;

// A window of its own while `open`, which its close button resets.
void draw_help(bool& open, Probe& probe);

}  // namespace specbound::gui
