// Which fonts there are to draw with, and which characters the text on screen is made of: what no
// loaded font has a picture of yet is gathered here, and the window makes the pictures between two
// frames (gui/window/font_atlas.h).
#pragma once

#include <imgui.h>

#include <set>
#include <string_view>

namespace specbound::gui {

// For ImGui::PushFont, which takes nullptr for the first font.
struct Fonts {
  ImFont* body = nullptr;
  ImFont* small = nullptr;
  ImFont* heading = nullptr;
  ImFont* mono = nullptr;
};
Fonts& fonts();

// The characters of this text are about to be drawn. To be called with whatever comes from outside
// (messages, tokens, file names, titles), as it is drawn, with no more than is visible.
void use_glyphs(std::string_view utf8);

// The characters that were asked for so far, beyond ASCII.
const std::set<ImWchar>& used_glyphs();
// Whether there are any that were not asked for when this was called last.
bool take_new_glyphs();

// Another number each time the pictures were made anew: widths measured before are out of date.
unsigned& font_generation();

}  // namespace specbound::gui
