// Small things that several views draw alike.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>

namespace specbound::gui {

// The one thing to press.
bool accent_button(const char* label, ImVec2 size = {0, 0});
// Only words until it is pointed at: for what stands beside each message.
bool quiet_button(const char* label);
// For the newest item while it is pointed at, a disabled one too; wrapped.
void tooltip(std::string_view text);
void show_tooltip(std::string_view text, float points = 340);  // whatever is pointed at
void colored_text(std::string_view text, ImU32 color);         // one line
void wrapped_text(std::string_view text, ImU32 color);         // in what is left of the width
void heading(std::string_view text);                           // likewise, in larger letters
// Fills `size` in place of what there is nothing of yet; the text is so wide at most.
void placeholder(std::string_view text, ImVec2 size, float widest);
// A modal popup in the middle of the screen, `opening` when it is to be opened; its size in points,
// as high as its content without `height`. ImGui::EndPopup() follows where it is open.
bool begin_dialog(const char* title, bool& opening, float width, float height = 0);
// What of a line fits so many pixels, with an ellipsis where it does not. Valid UTF-8.
std::string fitted(std::string_view text, float width);

}  // namespace specbound::gui
