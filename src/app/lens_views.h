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
// That of the stream `name`: COLUMNS, else the terminal's width, else 120.
TerminalStyle terminal_style(int fd, const char* name);
// Ends with a newline. The legend and the summary are not cut.
std::string lens_terminal(const LensView& view, const TerminalStyle& style);

// A whole SVG file without anything from elsewhere.
std::string lens_svg(const LensView& view);

// One JSON object on one line:
//   model, head           what was read, and with what
//   n_layers, check_layers, alpha (0 without annealing), tau
//   prompt_tokens, stop_reason
//   exits                 {right, wrong, nowhere}: tokens by where their draft would leave
//   mean_right_exit_layer null without one
//   agreement             for each layer the share of tokens that are the last layer's
//   tokens                [{id, text, exit_layer, exit_right, layers}]; nowhere: null, null
//   its layers            [{id, text, confidence, mark}], from the first on; mark: null, "right",
//                         "wrong" or "after" (a right exit)
// Bytes of a text that are no UTF-8 become U+FFFD.
std::string lens_json(const LensView& view);

}  // namespace specbound
