#include "terminal/terminal_text.h"

#include "error.h"
#include "text/utf8.h"

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

std::string spelled_out(std::string_view bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += format("\\x%02x", byte);
  return out;
}

}  // namespace specbound
