// Keys by name: ImGui 1.86 knows most of them by the window library's numbers only, later versions
// by names of their own. Nothing else in gui/ asks ImGui for a key.
#pragma once

namespace specbound::gui {

enum class Key {
  kEnter,
  kEscape,
  kTab,
  kBackspace,
  kDelete,
  kSpace,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kPageUp,
  kPageDown,
  kA,
  kC,
  kD,
  kN,
  kO,
  kQ,
  kS,
  kV,
  kX,
  kY,
  kZ,
  kF1,
  kF2,
  kF12,
};

// In this frame; `repeat`: also as often as a key held down says itself again.
bool key_pressed(Key key, bool repeat = false);
// With Ctrl and nothing else.
bool ctrl_pressed(Key key);

// The number that ImGui's key state has for it (in 1.86 also the index into io.KeysDown).
int key_number(Key key);

// Where there is no window that does it (tests): tells ImGui 1.86 the numbers of its own keys.
void number_keys();

}  // namespace specbound::gui
