#include "gui/view/pointer.h"

#include <cfloat>

namespace specbound::gui {

ImVec2 PointerQueue::nowhere() {
  return {-FLT_MAX, -FLT_MAX};
}

void PointerQueue::push(const PointerEvent& event) {
  using Kind = PointerEvent::Kind;
  if (event.kind != Kind::kMove && (event.button < 0 || event.button >= kButtons)) return;
  // Of movements in a row only the last is worth a frame.
  if (event.kind == Kind::kMove && !events_.empty() && events_.back().kind == Kind::kMove) {
    events_.back() = event;
  } else {
    events_.push_back(event);
  }
}

void PointerQueue::next_frame() {
  if (events_.empty()) return;
  const PointerEvent event = events_.front();
  events_.pop_front();
  if (event.kind == PointerEvent::Kind::kMove) {
    at_ = event.at;
  } else {
    down_[static_cast<size_t>(event.button)] = event.kind == PointerEvent::Kind::kDown;
  }
}

}  // namespace specbound::gui
