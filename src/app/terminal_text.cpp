#include "app/terminal_text.h"

#include "error.h"
#include "text/utf8_stream.h"

namespace specbound {

namespace {

// U+200B..U+200F, U+2028..U+202E, U+2060..U+207F: separators, zero-width and direction marks.
bool is_invisible_mark(std::string_view c) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(c[i]); };
  if (c.size() != 3 || byte(0) != 0xe2) return false;
  if (byte(1) == 0x81) return byte(2) >= 0xa0;
  return byte(1) == 0x80 &&
         ((byte(2) >= 0x8b && byte(2) <= 0x8f) || (byte(2) >= 0xa8 && byte(2) <= 0xae));
}

bool is_control(std::string_view c) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(c[i]); };
  if (c.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  return c.size() == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;  // C1
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Head head = utf8_head(text);
    const std::string_view c = text.substr(0, head.length);
    if (head.kind != Utf8Head::kWhole || is_control(c) || is_invisible_mark(c)) {
      for (unsigned char byte : c) out += format("\\x%02x", byte);
    } else {
      out += c;
    }
    text.remove_prefix(c.size());
  }
  return out;
}

}  // namespace specbound
