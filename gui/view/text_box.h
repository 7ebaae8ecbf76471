// A box to write text of several lines in, wrapped at its width, which ImGui's own box is not.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>

#include "gui/model/text_edit.h"
#include "gui/model/text_layout.h"

namespace specbound::gui {

class Probe;

// What was typed for each U+FFFD among this frame's io.InputQueueCharacters, in order: ImGui's
// characters have 16 bits, and emoji more. The window fills it, boxes take from it.
std::u32string& wide_characters();

class TextBox {
 public:
  enum class Result { kNone, kSubmitted, kCancelled };

  const std::string& text() const { return edit_.text(); }
  void set_text(std::string text) { edit_.set_text(std::move(text)); }
  // Takes the keyboard in the next frame.
  void focus() { focus_ = true; }

  // How high a box of this width is to show all its text, within so many lines.
  float height(float width, int least_lines, int most_lines);
  static float height_of(int lines);
  // An item of this size. Enter submits where it is asked to (with Shift or Ctrl it begins a line),
  // Escape cancels. `hint` stands in an empty box; `name` is for the probe.
  Result draw(ImVec2 size, bool enter_submits, std::string_view hint, std::string_view name,
              Probe& probe);

 private:
  void lay_out(float width);
  bool take_focus(ImGuiID id, bool hovered);
  Result take_keys(bool enter_submits);
  void take_editing_keys();
  void take_moving_keys();
  void take_mouse(bool active, ImVec2 origin);
  void move_lines(int lines, bool selecting);
  size_t byte_near(ImVec2 point) const;  // from the text's upper left corner
  ImVec2 place_of(size_t at) const;
  void draw_text(ImVec2 min, ImVec2 max, bool active, std::string_view hint);

  TextEdit edit_;
  TextLayout layout_;
  TextMetrics metrics_;
  size_t laid_out_ = 0;  // the version of the text that layout_ is of
  float scroll_ = 0;
  size_t shown_caret_ = 0;  // that scroll_ was made for
  float wanted_x_ = -1;     // of the caret that goes up and down; -1: where it is
  bool focus_ = false, dragging_ = false;
};

}  // namespace specbound::gui
