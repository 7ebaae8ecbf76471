// The shapes of the layer map: cells, the marks that tell without colour what became of a token,
// and the legend made of them.
#pragma once

#include <imgui.h>

#include <string>

#include "gui/model/layer_map.h"

namespace specbound::gui {

ImU32 kind_color(TokenKind kind);

// One cell; `label` where it is wide enough to be read.
void draw_cell(ImDrawList* list, ImVec2 min, ImVec2 max, const MapCell& cell,
               const std::string& label);

// `text` with its beginning at `at`, cut at `right` with an ellipsis. Clipping is the caller's.
void draw_cut_text(ImDrawList* list, ImVec2 at, float right, ImU32 color, const std::string& text);

// Wraps onto as many lines as the width of the window needs.
void draw_map_legend();
// The height that it will take in that width.
float map_legend_height(float width);

}  // namespace specbound::gui
