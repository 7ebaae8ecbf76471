// Whether bytes are well-formed UTF-8, and if not, how far they are.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/utf8_stream.h"

namespace specbound {

// How many bytes of `text` come before the first that is no part of a well-formed character.
inline size_t utf8_prefix(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const Utf8Head head = utf8_head(text.substr(size));
    if (head.kind != Utf8Head::kWhole) break;
    size += head.length;
  }
  return size;
}

inline bool is_utf8(std::string_view text) {
  return utf8_prefix(text) == text.size();
}

}  // namespace specbound
