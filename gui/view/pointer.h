// The mouse on its way from the window to the views. ImGui 1.86 sees its state once a frame, and
// presses what it pointed at in the frame before: a click shorter than a frame, or right behind a
// movement, would be lost.
#pragma once

#include <imgui.h>

#include <array>
#include <deque>

namespace specbound::gui {

struct PointerEvent {
  enum class Kind { kMove, kDown, kUp };
  Kind kind = Kind::kMove;
  ImVec2 at;       // of a movement, in the units of io.MousePos
  int button = 0;  // of the others: an index into io.MouseDown
};

// The state that each frame may see.
class PointerQueue {
 public:
  static constexpr int kButtons = 5;  // as many as io.MouseDown has
  // Where a pointer is that is nowhere, as ImGui has it.
  static ImVec2 nowhere();

  void push(const PointerEvent& event);
  bool empty() const { return events_.empty(); }
  // Takes what the next frame may see: every movement up to a button; a button alone, in a frame
  // behind one that saw the pointer where it is pressed.
  void next_frame();

  ImVec2 at() const { return at_; }
  bool down(int button) const { return down_[static_cast<size_t>(button)]; }

 private:
  std::deque<PointerEvent> events_;
  ImVec2 at_ = nowhere();
  std::array<bool, kButtons> down_ = {};
};

}  // namespace specbound::gui
