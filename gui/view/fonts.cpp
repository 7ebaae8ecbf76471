#include "gui/view/fonts.h"

#include <utility>

#include "text/utf8.h"

namespace specbound::gui {

namespace {

std::set<ImWchar> used;
bool have_new = false;

}  // namespace

Fonts& fonts() {
  static Fonts instance;
  return instance;
}

void use_glyphs(std::string_view utf8) {
  for (size_t i = 0; i < utf8.size();) {
    if (static_cast<unsigned char>(utf8[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Head head = utf8_head(utf8.substr(i));
    const uint32_t code = head.kind == Utf8Head::kWhole ? code_point(utf8.substr(i, head.length))
                                                        : IM_UNICODE_CODEPOINT_INVALID;
    if (code <= IM_UNICODE_CODEPOINT_MAX && used.insert(static_cast<ImWchar>(code)).second) {
      have_new = true;
    }
    i += head.length;
  }
}

const std::set<ImWchar>& used_glyphs() {
  return used;
}

bool take_new_glyphs() {
  return std::exchange(have_new, false);
}

unsigned& font_generation() {
  static unsigned generation = 0;
  return generation;
}

}  // namespace specbound::gui
