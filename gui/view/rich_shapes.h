// How parts of Markdown look: letters in their styles, the box behind code.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <string_view>

#include "gui/model/rich_layout.h"

namespace specbound::gui {

// A part of a line in one style.
struct RichPiece {
  TextRange bytes;
  uint8_t style;  // RichStyle bits
  RichFont font;
  const TextMetrics* metrics;
  ImVec2 at;  // top left of its part of the line
  float width;
};

// In a line of that height whose other letters are of the font `main`, which share the baseline.
void draw_piece(std::string_view text, const RichPiece& piece, float height, RichFont main);

ImU32 code_background();
// Behind code within text.
void draw_code_box(ImVec2 at, float width, float height);

// An item that others may be put upon.
void begin_overlapped_item(const char* id, ImVec2 size);

}  // namespace specbound::gui
