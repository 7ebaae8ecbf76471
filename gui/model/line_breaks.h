// Where text is broken to fit a width: at spaces, beside ideographs, else between any two
// characters. For text in one font (gui/model/text_layout.h) and in several (rich_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gui/model/text_layout.h"

namespace specbound::gui {

inline bool is_blank_character(uint32_t c) {
  return c == ' ' || c == '\t';
}

// Scripts that are written without spaces.
inline bool breaks_anywhere(uint32_t c) {
  return (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0xff00 && c <= 0xffef) ||
         (c >= 0x20000 && c <= 0x3fffd) || (c >= 0x0e00 && c <= 0x0eff);
}

// Calls finish(begin, end) for each line of the bytes in `range`, one at least. advance(at, c) is
// how wide the character at that byte is. Blanks hang over the edge; no line is longer than
// TextLayout::kMaxLineBytes.
template <class Advance, class Finish>
void break_lines(std::string_view text, TextRange range, float width, Advance advance,
                 Finish finish) {
  size_t begin = range.begin, breakable = begin;  // of the line under way; behind its last break
  float x = 0;
  for (size_t at = begin; at < range.end;) {
    const DrawnCharacter c = drawn_character(text, at);
    if (c.code_point == '\n') {
      finish(begin, at);
      at = begin = breakable = at + 1;
      x = 0;
      continue;
    }
    const float step = advance(at, c.code_point);
    const bool blank = is_blank_character(c.code_point), alone = breaks_anywhere(c.code_point);
    if (alone) breakable = at;
    const bool over =
        (!blank && x + step > width) || at + c.length - begin > TextLayout::kMaxLineBytes;
    if (over && at > begin) {
      const size_t end = breakable > begin ? breakable : at;
      finish(begin, end);
      at = begin = breakable = end;
      x = 0;
      continue;
    }
    x += step;
    at += c.length;
    if (blank || alone) breakable = at;
  }
  finish(begin, range.end);
}

}  // namespace specbound::gui
