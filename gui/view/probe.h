// What views say of what they draw, by name: tests and `specbound gui --ui-json` find buttons and
// cells by it. Off, it keeps nothing; a name that is put together costs, so ask on() first.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>
#include <vector>

namespace specbound::gui {

class FrameTimes;

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
  void begin_frame() {
    rects_.clear();
    values_.clear();
  }

  void rect(std::string_view name, ImVec2 min, ImVec2 max);
  // The newest ImGui item, where any of it is visible.
  void item(std::string_view name);
  // The ImGui window that is being drawn into.
  void window(std::string_view name);
  void value(std::string_view name, std::string_view text);
  void value(std::string_view name, double number);
  // The newest item as row `index` of a list, and what it says.
  void row(std::string_view list, size_t index, std::string_view text);

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

// `--ui-json FILE`: what the probe knows of the frame on screen, as JSON in a file that is replaced
// whole when something changed. For programs that drive the window.
//
// {"names": {name: [left, top, right, bottom]}, "values": {name: text},
//  "frames": {"count", "work_p50_ms", "work_p99_ms", "interval_p50_ms", "interval_p99_ms"}}
std::string ui_json(const Probe& probe, const FrameTimes& times);

class UiJsonFile {
 public:
  // Throws Error(kFile) for a file that cannot be written. An empty name is none.
  explicit UiJsonFile(std::string path = {});
  bool on() const { return !path_.empty(); }

  // After a frame. Writing takes a twentieth of the time at most: who looks must not change much of
  // what there is to see.
  void frame(const Probe& probe, const FrameTimes& times, double now);
  // When frame() is to be called again with what it has not written yet; below 0: never.
  double due() const { return pending_ ? next_ : -1; }

  static constexpr double kEvery = 0.05, kSeldom = 0.5;  // seconds from one to the next

 private:
  std::string path_, written_;
  double next_ = 0;  // when it may be written again
  bool pending_ = false;
};

}  // namespace specbound::gui
