#include "app/terminal_text.h"

#include "error.h"
#include "text/utf8_stream.h"

namespace specbound {

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

uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t value = byte(0) & (0x7f >> character.size());
  for (size_t i = 1; i < character.size(); ++i) value = value << 6 | (byte(i) & 0x3f);
  return value;
}

bool is_shapeless(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe || (c >= 0xe0000 && c <= 0xe0fff);
}

std::string spelled_out(std::string_view bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += format("\\x%02x", byte);
  return out;
}

}  // namespace specbound
