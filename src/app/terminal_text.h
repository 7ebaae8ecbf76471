// Text of unknown origin (paths, names and strings from files) on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace specbound {

// `text` on one line, with nothing in it that steers a terminal: control characters (C1 included),
// marks that are invisible or change direction, and broken UTF-8 become \xNN. Other characters
// stay; nothing is cut.
std::string terminal_text(std::string_view text);

}  // namespace specbound
