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
void dim_text(std::string_view text);                   // one line
void wrapped_text(std::string_view text, ImU32 color);  // in what is left of the width
// What of a line fits so many pixels, with an ellipsis where it does not. Valid UTF-8.
std::string fitted(std::string_view text, float width);

}  // namespace specbound::gui
