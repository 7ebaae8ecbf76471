#include "terminal/terminal_text.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include "error.h"
#include "text/utf8.h"

namespace specbound {

namespace {

std::string visible_character(std::string_view c) {
  if (c == " ") return "\u2423";
  if (c == "\n") return "\\n";
  if (c == "\t") return "\\t";
  if (c == "\r") return "\\r";
  const uint32_t value = code_point(c);
  if (is_shapeless(value) || character_width(value) < 0) return spelled_out(c);
  return std::string(c);
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Head head = utf8_head(text);
    const std::string_view c = text.substr(0, head.length);
    const bool shown = head.kind == Utf8Head::kWhole && !is_shapeless(code_point(c));
    out += shown ? std::string(c) : spelled_out(c);
    text.remove_prefix(c.size());
  }
  return out;
}

std::string terminal_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view c = text.substr(0, utf8_head(text).length);
    const uint32_t value = code_point(c);
    const bool steers = value < 0x20 || (value >= 0x7f && value < 0xa0);  // C0, DEL, C1
    if (!steers || c == "\n" || c == "\t") {
      out += c;
    } else if (c != "\r") {
      out += spelled_out(c);
    }
    text.remove_prefix(c.size());
  }
  return out;
}

std::string spelled_out(std::string_view bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += format("\\x%02x", byte);
  return out;
}

int character_width(uint32_t c) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int width = wcwidth(static_cast<wchar_t>(c));
  uselocale(before);
  return width;
}

std::string visible_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Head head = utf8_head(bytes);
    const std::string_view c = bytes.substr(0, head.length);
    bytes.remove_prefix(c.size());
    const std::string shown = head.kind == Utf8Head::kWhole ? visible_character(c) : spelled_out(c);
    if (out.empty() && display_width(shown) == 0) out = "\u25cc";
    out += shown;
  }
  return out;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Utf8Head head = utf8_head(text);
    width += head.kind == Utf8Head::kWhole
                 ? std::max(0, character_width(code_point(text.substr(0, head.length))))
                 : 1;
    text.remove_prefix(head.length);
  }
  return width;
}

std::string fit_width(std::string_view text, int columns) {
  SB_CHECK(columns >= 1);
  if (const int width = display_width(text); width <= columns) {
    return std::string(text) + std::string(columns - width, ' ');
  }
  std::string out;
  int width = 0;
  while (!text.empty()) {
    const std::string_view c = text.substr(0, utf8_head(text).length);
    const int more = display_width(c);
    if (width + more > columns - 1) break;
    out += c;
    width += more;
    text.remove_prefix(c.size());
  }
  return out + std::string(columns - 1 - width, ' ') + "~";
}

}  // namespace specbound
