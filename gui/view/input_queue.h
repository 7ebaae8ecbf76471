// Keys and mouse on their way from the window to the views, in the order they came. ImGui 1.86 sees
// their state once a frame, takes a frame's characters before its keys, and presses what it pointed
// at in the frame before. So what was pressed and released between two frames would never have been
// down, what was typed before Enter would come after it, and a click right behind a movement would
// be lost.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace specbound::gui {

struct InputEvent {
  enum class Kind { kKeyDown, kKeyUp, kCharacter, kMove, kWheel, kButtonDown, kButtonUp };
  Kind kind = Kind::kMove;
  int key = 0, scancode = 0, mods = 0;  // of a key
  bool text = false;                    // the key does nothing but bring a character
  uint32_t character = 0;
  double x = 0, y = 0;  // of a movement: the place, as io.MousePos has it; of the wheel: its way
  int button = 0;       // an index into io.MouseDown

  bool is_button() const { return kind == Kind::kButtonDown || kind == Kind::kButtonUp; }
};

// Hands out only as much a frame as keeps the order.
class InputQueue {
 public:
  static constexpr int kButtons = 5;  // as many as io.MouseDown has

  // Of movements in a row the last one counts; buttons that ImGui does not know are left out.
  void push(const InputEvent& event) {
    using Kind = InputEvent::Kind;
    if (event.is_button()) {
      if (event.button < 0 || event.button >= kButtons) return;
      held_[event.button] = event.kind == Kind::kButtonDown;
    }
    if (event.kind == Kind::kMove && !events_.empty() && events_.back().kind == Kind::kMove) {
      events_.back() = event;
    } else {
      events_.push_back(event);
    }
  }
  bool empty() const { return events_.empty(); }
  // Whether that button will be down once all has been taken.
  bool holds(int button) const { return held_[button]; }
  // What the next frame may see: up to the first key with a meaning of its own; a button alone, so
  // that a frame has seen pointer and Ctrl as they were when it was pressed.
  std::vector<InputEvent> take() {
    std::vector<InputEvent> frame;
    for (bool full = false; !events_.empty() && !full; events_.pop_front()) {
      const InputEvent& event = events_.front();
      if (event.is_button() && !frame.empty()) break;
      frame.push_back(event);
      full = event.is_button() || (event.kind == InputEvent::Kind::kKeyDown && !event.text);
    }
    return frame;
  }

 private:
  std::deque<InputEvent> events_;
  bool held_[kButtons] = {};
};

}  // namespace specbound::gui
