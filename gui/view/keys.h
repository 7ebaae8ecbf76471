// Keys as the views ask for them: ImGui 1.86 knows a key by the number that GLFW has for it.
#pragma once

#include <imgui.h>

namespace specbound::gui {

// As GLFW numbers them, letters as in ASCII; ImGui 1.86 has them as indices into io.KeysDown.
enum class Key {
  kSpace = 32,
  kEscape = 256,
  kEnter,
  kTab,
  kBackspace,
  kDelete = 261,
  kRight,
  kLeft,
  kDown,
  kUp,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kF1 = 290,
  kF2,
  kF12 = 301,
};

// In this frame; `repeat`: also as often as a key held down says itself again.
inline bool key_pressed(Key key, bool repeat = false) {
  return ImGui::IsKeyPressed(static_cast<int>(key), repeat);
}

// A letter with Ctrl and nothing else.
inline bool ctrl_pressed(char letter) {
  const ImGuiIO& io = ImGui::GetIO();
  return io.KeyCtrl && !io.KeyShift && !io.KeyAlt && !io.KeySuper && key_pressed(Key{letter});
}

}  // namespace specbound::gui
