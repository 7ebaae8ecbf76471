// A lens table as Figure 1 of the paper, for a terminal and as SVG, and as JSON for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/lens_table.h"

namespace specbound {

struct LensView {
  const LensTable& table;
  std::string model;                          // its path
  std::string head;                           // ExitHead::name()
  std::function<std::string(int32_t)> piece;  // the bytes of a token, control tokens spelled out
};

// What a cell shows for a token: visible_text() of its bytes, or its number in <> if it has none.
std::string token_label(const LensView& view, int32_t token);
// A confidence as people read it: whole percent, rounded down, so that what is below a threshold
// looks so; at most 99.
int percent(float share);
// `16 tokens: 9 leave right (mean layer 6.2), 3 wrong, 4 nowhere | lens, alpha 0.2, tau 0.55`
std::string summary_line(const LensView& view);

struct TerminalStyle {
  int width = 80;  // columns of the terminal; blocks of tokens are cut to it
  bool colour = false;
};
// Ends with a newline.
std::string lens_terminal(const LensView& view, const TerminalStyle& style);

// A whole SVG file without anything from elsewhere.
std::string lens_svg(const LensView& view);

// One JSON object: settings, summary, and the tokens with their layers.
std::string lens_json(const LensView& view);

}  // namespace specbound
