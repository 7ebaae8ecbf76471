// "What is this?": speculation in five sentences and a picture.
#pragma once

namespace specbound::gui {

class Probe;

class HelpView {
 public:
  // A window of its own while `open`, which its close button resets.
  void draw(bool& open, Probe& probe);
};

}  // namespace specbound::gui
