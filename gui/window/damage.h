// Which parts of the window a frame has to draw again: those where it draws anything else than the
// frame before did.
//
// Whoever draws knows nothing of it. What ImGui wants drawn is compared tile by tile, so that no
// view can forget to tell of a change.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <vector>

#include "gui/view/theme.h"

namespace specbound::gui {

// Of pixels, from the window's upper left corner; right and bottom are beyond.
struct PixelRect {
  int left = 0, top = 0, right = 0, bottom = 0;

  bool empty() const { return left >= right || top >= bottom; }
  bool operator==(const PixelRect&) const = default;
};
PixelRect common(PixelRect a, PixelRect b);
PixelRect around(PixelRect a, PixelRect b);
// What may be drawn to under a clip rectangle of ImGui, as its OpenGL backend rounds it.
PixelRect clip_pixels(const ImVec4& clip, int height);

class Damage {
 public:
  static constexpr int kTile = 64;  // pixels; as Mesa's software renderer divides the screen
  static constexpr size_t kMostRects = 6;
  static constexpr size_t kMostRuns = 64;  // that are joined; of more the window is drawn whole

  // Rectangles that do not overlap and hold everything that differs from what was given at the last
  // call. A point of ImGui is a pixel here.
  std::vector<PixelRect> since_last(const ImDrawData& data, const std::vector<Backdrop>& backdrops,
                                    int width, int height);
  // Nothing is known of what the window shows.
  void forget() { before_.clear(); }

 private:
  void add(PixelRect where, uint64_t what);
  std::vector<PixelRect> different() const;

  int width_ = 0, height_ = 0;
  int columns_ = 0, rows_ = 0;
  std::vector<uint64_t> before_, now_;  // a hash of what is drawn onto each tile, in order
};

}  // namespace specbound::gui
