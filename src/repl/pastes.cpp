#include "repl/pastes.h"

#include <algorithm>

#include "error.h"

namespace specbound {

namespace {

constexpr std::string_view kMark = "[paste ";
constexpr size_t kMostBytes = 2000;  // a screen; libedit draws all of it with each key

size_t count_lines(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

// Bytes that are not inside of a character.
size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

bool fits_line(std::string_view text, size_t lines) {
  return text.size() <= kMostBytes && count_lines(text) <= lines;
}

std::string Pastes::put_aside(const std::string& text) {
  for (const auto& [mark, kept] : texts_) {
    if (kept == text) return mark;
  }
  const size_t lines = count_lines(text);
  const size_t n = lines > 1 ? lines : count_characters(text);
  std::string mark = std::string(kMark) + format("%zu: %zu %s]", texts_.size() + 1, n,
                                                 lines > 1 ? "lines" : "characters");
  texts_.emplace_back(mark, text);
  return mark;
}

std::string Pastes::put_back(std::string_view line) const {
  std::string out;
  for (;;) {
    const size_t at = line.find(kMark);
    out += line.substr(0, at);
    if (at == std::string_view::npos) return out;
    line.remove_prefix(at);
    const auto found = std::find_if(texts_.begin(), texts_.end(), [line](const auto& text) {
      return line.starts_with(text.first);
    });
    const bool known = found != texts_.end();
    out += known ? std::string_view(found->second) : kMark;
    line.remove_prefix(known ? found->first.size() : kMark.size());
  }
}

}  // namespace specbound
