#include "error.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace specbound {

std::string format(const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  va_list again;
  va_copy(again, args);
  const int n = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text(n > 0 ? n : 0, '\0');
  if (n > 0) std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string printable(std::string_view text, size_t most) {
  std::string out;
  for (unsigned char c : text.substr(0, most)) {
    if (c >= 0x20 && c < 0x7f) {
      out += static_cast<char>(c);
    } else {
      out += format("\\x%02x", c);
    }
  }
  if (text.size() > most) out += "...";
  return out;
}

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "specbound: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace specbound
