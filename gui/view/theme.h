// Every colour and measure that is drawn: dark and light, scaled to the screen. Views name what
// they mean, never a colour or a bare number of pixels.
#pragma once

#include <imgui.h>

#include <vector>

namespace specbound::gui {

struct Theme {
  bool dark = true;
  float scale = 1;  // pixels per point: 2 on a HiDPI screen

  ImU32 background, panel, raised, border;  // window, side panels, bubbles and fields, lines
  ImU32 text, dim, faint;                   // faint: what is only there to be ignored
  ImU32 accent, on_accent;                  // the one thing to press, and text on it
  ImU32 selection, hover;                   // behind text
  ImU32 good, warning, error;
  ImU32 user_bubble;

  // How a token came about, and where it left.
  ImU32 accepted, rejected, verified, exit;

  // Plots.
  ImU32 grid, axis, line, second_line, threshold;
  // Phases of a round, in order: draft, check, verify, logits, sample.
  ImU32 phase[5];

  // Length in pixels of so many points.
  float px(float points) const { return points * scale; }
  // Confidence 0..1 (NaN counts as 0) on a ramp that also a colour-blind eye reads: it gets
  // steadily brighter (dark) or darker (light).
  ImU32 confidence(float share) const;
  // Text to read upon a cell of that colour.
  ImU32 text_on(ImU32 fill) const;
};

const Theme& theme();

// Chooses the colours and sizes of `dark` at `scale`, here and in ImGui's style (where there is a
// context).
void set_theme(bool dark, float scale);

// What lies under everything in a frame: rectangles of one colour, which the window clears before
// it draws. A software renderer clears several times faster than it draws.
struct Backdrop {
  ImVec2 min, max;  // pixels of the window
  ImU32 color;
};
// Of the frame being drawn; the first is the whole window. MainView begins it anew.
std::vector<Backdrop>& backdrops();

// `color` with its opacity multiplied.
ImU32 faded(ImU32 color, float opacity);
// Between two colours; share 0 is the first.
ImU32 mixed(ImU32 a, ImU32 b, float share);

}  // namespace specbound::gui
