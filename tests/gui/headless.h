// ImGui without a window or OpenGL: a test moves the mouse, clicks, types and draws frames, and
// reads back what was drawn: texts from the pictures of their letters, colours from the triangles.
#pragma once

#include <imgui.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"

namespace specbound::gui {

// One at a time. The context is fresh: no state of windows is left from the test before.
class Headless {
 public:
  explicit Headless(float width = 1280, float height = 800, float scale = 1, bool dark = true);
  ~Headless();
  Headless(const Headless&) = delete;
  Headless& operator=(const Headless&) = delete;

  // What each frame draws. set_content's runs inside one window that fills the display.
  void set_frame(std::function<void()> draw);
  void set_content(std::function<void()> draw);
  void resize(float width, float height);

  // A frame takes 1/60 s of ImGui's time.
  void frame(int n = 1);
  double seconds_per_frame = 1.0 / 60;

  // Each of these draws the frames it needs.
  void move(ImVec2 to);
  void move(std::string_view rect);  // the middle of what the probe calls that; throws without
  void press(int button = 0);
  void release(int button = 0);
  void click(ImVec2 at, int button = 0);
  void click(std::string_view rect, int button = 0);
  void double_click(ImVec2 at);
  void drag(ImVec2 from, ImVec2 to);
  void wheel(float notches, float sideways = 0);
  void type(std::string_view utf8);
  void key(Key key, bool ctrl = false, bool shift = false);

  // Of the last frame, by the probe. rect throws std::runtime_error for what was not drawn.
  bool has(std::string_view rect) const;
  Probe::Rect rect(std::string_view name) const;
  std::string value(std::string_view name) const;  // empty without
  std::vector<std::string> rects(std::string_view prefix) const;

  struct Glyph {
    ImWchar code;
    ImVec2 min, max;
    ImU32 color;
  };
  // The letters inside the visible part of what was drawn, in the order of drawing.
  std::vector<Glyph> glyphs() const;
  // Those inside the rectangle, line by line; a gap is a space.
  std::string text(ImVec2 min = {0, 0}, ImVec2 max = {1e9f, 1e9f}) const;
  std::string text(std::string_view rect) const;
  // Whether this is somewhere on the screen, blanks and line ends aside.
  bool shows(std::string_view text) const;
  // The colour of the topmost shape at a pixel, letters left out; 0 where nothing is.
  ImU32 color_at(ImVec2 pixel) const;
  // Triangles in the last frame: what is not visible must not be drawn.
  int triangles() const;

  const std::string& clipboard() const { return clipboard_; }
  void set_clipboard(std::string text) { clipboard_ = std::move(text); }

 private:
  std::function<void()> draw_;
  std::string clipboard_;
};

}  // namespace specbound::gui
