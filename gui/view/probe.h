// What views say of what they draw, by name: tests and `specbound gui --ui-json` find buttons and
// cells by it. Off, it keeps nothing; a name that is put together costs, so ask on() first.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>
#include <vector>

namespace specbound::gui {

class Probe {
 public:
  struct Rect {
    std::string name;
    ImVec2 min, max;  // pixels of the window
    ImVec2 center() const { return {(min.x + max.x) / 2, (min.y + max.y) / 2}; }
  };
  struct Value {
    std::string name, text;
  };

  bool on() const { return on_; }
  void set_on(bool on) { on_ = on; }
  // What was said in the last frame is forgotten.
  void begin_frame();

  void rect(std::string_view name, ImVec2 min, ImVec2 max);
  // The newest ImGui item, where any of it is visible.
  void item(std::string_view name);
  void value(std::string_view name, std::string_view text);
  void value(std::string_view name, double number);

  const std::vector<Rect>& rects() const { return rects_; }
  const std::vector<Value>& values() const { return values_; }
  // The newest of this name in the frame; nullptr without.
  const Rect* find(std::string_view name) const;
  const std::string* find_value(std::string_view name) const;

 private:
  bool on_ = false;
  std::vector<Rect> rects_;
  std::vector<Value> values_;
};

// The one of this process: there is one window, and one ImGui context.
Probe& probe();

}  // namespace specbound::gui
