#include "gui/view/input_queue.h"

namespace specbound::gui {

void InputQueue::push(const InputEvent& event) {
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

std::vector<InputEvent> InputQueue::take() {
  std::vector<InputEvent> frame;
  for (bool full = false; !events_.empty() && !full; events_.pop_front()) {
    const InputEvent& event = events_.front();
    if (event.is_button() && !frame.empty()) break;
    frame.push_back(event);
    full = event.is_button() || (event.kind == InputEvent::Kind::kKeyDown && !event.text);
  }
  return frame;
}

}  // namespace specbound::gui
