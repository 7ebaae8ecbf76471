// Text of unknown origin (paths, names and strings from files) on its way to a terminal, and text
// as cells of a table there: nothing invisible, and as wide as it will be shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace specbound {

// `text` on one line, with nothing in it that steers a terminal: characters without a shape and
// broken UTF-8 become \xNN. Other characters stay; nothing is cut.
std::string terminal_text(std::string_view text);

// Text of many lines, whole characters, as it comes piece by piece: lines and tabs stay, carriage
// returns go, other characters that steer a terminal become \xNN. Nothing else changes.
std::string terminal_lines(std::string_view text);

// \xNN for each byte.
std::string spelled_out(std::string_view bytes);

// ---- cells ----

// `bytes` as one visible word: U+2423 for a space, \n \t \r, and \xNN for whatever steers a
// terminal, has no shape, or is no UTF-8. A combining mark without a character to sit on gets a
// dotted circle.
std::string visible_text(std::string_view bytes);

// Columns of one character by the system's tables, as its terminals take them, whatever locale the
// program runs in: 2 for wide ones, 0 for combining marks, -1 for what cannot be printed.
int character_width(uint32_t code_point);

// Columns that visible_text() takes on a terminal: 2 for wide characters, 0 for combining marks.
int display_width(std::string_view text);

// visible_text() cut or filled to exactly `columns`; "~" in the last one tells of a cut.
std::string fit_width(std::string_view text, int columns);

}  // namespace specbound
