// Keys on their way from the window to ImGui, which looks at their state once a frame: what was
// pressed and released between two frames would never have been down, and what was typed before
// Enter would come after it. Hands out only as much a frame as keeps the order.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace specbound::gui {

struct KeyEvent {
  enum class Kind { kDown, kUp, kCharacter };
  Kind kind = Kind::kDown;
  int key = 0, scancode = 0, mods = 0;  // of a key
  uint32_t character = 0;
  bool text = false;  // the key does nothing but bring a character
};

class KeyQueue {
 public:
  void push(const KeyEvent& event) { events_.push_back(event); }
  // What the next frame may see.
  std::vector<KeyEvent> take();
  bool empty() const { return events_.empty(); }

 private:
  std::deque<KeyEvent> events_;
};

}  // namespace specbound::gui
