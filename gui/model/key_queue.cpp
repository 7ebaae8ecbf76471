#include "gui/model/key_queue.h"

namespace specbound::gui {

std::vector<KeyEvent> KeyQueue::take() {
  std::vector<KeyEvent> frame;
  bool command = false;  // a key with a meaning of its own went down in this frame
  while (!events_.empty()) {
    const KeyEvent& event = events_.front();
    // ImGui takes a frame's characters before its keys.
    if (command) break;
    if (event.kind == KeyEvent::Kind::kDown) command = !event.text;
    frame.push_back(event);
    events_.pop_front();
  }
  return frame;
}

}  // namespace specbound::gui
