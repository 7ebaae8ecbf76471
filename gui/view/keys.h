// Keys on their way from the window to the views. ImGui 1.86 knows a key by the number that GLFW
// has for it, and sees its state once a frame: what was pressed and released between two frames
// would never have been down, and what was typed before Enter would come after it.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <deque>
#include <vector>

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

struct KeyEvent {
  enum class Kind { kDown, kUp, kCharacter };
  Kind kind = Kind::kDown;
  int key = 0, scancode = 0, mods = 0;  // of a key
  uint32_t character = 0;
  bool text = false;  // the key does nothing but bring a character
};

// Hands out only as much a frame as keeps the order.
class KeyQueue {
 public:
  void push(const KeyEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }
  // What the next frame may see: up to the first key with a meaning of its own, since ImGui takes a
  // frame's characters before its keys.
  std::vector<KeyEvent> take() {
    std::vector<KeyEvent> frame;
    for (bool command = false; !events_.empty() && !command; events_.pop_front()) {
      frame.push_back(events_.front());
      command = frame.back().kind == KeyEvent::Kind::kDown && !frame.back().text;
    }
    return frame;
  }

 private:
  std::deque<KeyEvent> events_;
};

}  // namespace specbound::gui
