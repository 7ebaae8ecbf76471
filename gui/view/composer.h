// The box that messages are written in, with send or stop beside it.
#pragma once

#include "gui/view/text_box.h"

namespace specbound::gui {

class AppState;
class Probe;

class Composer {
 public:
  // In this width at the bottom of the chat pane, as high as height() says.
  void draw(AppState& state, float width, Probe& probe);
  float height(float width);
  void focus() { box_.focus(); }

 private:
  void draw_button(AppState& state, float width, float height, Probe& probe);
  void send(AppState& state);

  TextBox box_;
};

}  // namespace specbound::gui
