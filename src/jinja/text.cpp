#include "jinja/text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <utility>

#include "text/utf8.h"

namespace specbound::jinja {

namespace {

struct Character {
  char32_t code;  // of a byte that is no UTF-8: above U+10FFFF
  size_t size;
};

// The character that a text which is not empty begins with.
Character first_character(std::string_view text) {
  const Utf8Head head = utf8_head(text);
  if (head.kind == Utf8Head::kWhole) return {head.code, static_cast<size_t>(head.length)};
  return {0x110000u + static_cast<uint8_t>(text[0]), 1};
}

// The character that a text ends with: as first_character() would have met it.
Character last_character(std::string_view text) {
  for (size_t size = std::min<size_t>(4, text.size()); size > 1; --size) {
    const Character c = first_character(text.substr(text.size() - size));
    if (c.size == size) return c;
  }
  return first_character(text.substr(text.size() - 1));
}

// str.isspace()
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

template <typename Predicate>
std::string_view strip_if(std::string_view text, Side side, const Predicate& goes) {
  while (side != Side::kRight && !text.empty()) {
    const Character c = first_character(text);
    if (!goes(c, text.substr(0, c.size))) break;
    text.remove_prefix(c.size);
  }
  while (side != Side::kLeft && !text.empty()) {
    const Character c = last_character(text);
    if (!goes(c, text.substr(text.size() - c.size))) break;
    text.remove_suffix(c.size);
  }
  return text;
}

}  // namespace

Text::Text(std::string bytes, bool input) : bytes_(std::move(bytes)) {
  if (input && !bytes_.empty()) edges_ = {0, bytes_.size()};
}

std::vector<Text::Part> Text::parts() const {
  std::vector<Part> out;
  size_t at = 0;
  bool input = false;
  const auto add = [&](size_t edge) {
    if (edge > at) out.push_back({std::string_view(bytes_).substr(at, edge - at), input});
    at = edge;
    input = !input;
  };
  for (const size_t edge : edges_) add(edge);
  add(bytes_.size());
  return out;
}

Text Text::part(std::string_view view) const {
  Text out{std::string(view)};
  if (view.empty() || edges_.empty()) return out;
  const size_t begin = view.data() - bytes_.data(), end = begin + view.size();
  auto edge = std::upper_bound(edges_.begin(), edges_.end(), begin);
  if ((edge - edges_.begin()) % 2 != 0) out.edges_.push_back(0);  // begins inside of input
  for (; edge != edges_.end() && *edge < end; ++edge) out.edges_.push_back(*edge - begin);
  if (out.edges_.size() % 2 != 0) out.edges_.push_back(view.size());
  return out;
}

Text& Text::operator+=(const Text& other) {
  const size_t offset = bytes_.size();
  bytes_ += other.bytes_;
  auto edge = other.edges_.begin();
  if (edge != other.edges_.end() && *edge == 0 && !edges_.empty() && edges_.back() == offset) {
    edges_.pop_back();  // input goes on
    ++edge;
  }
  for (; edge != other.edges_.end(); ++edge) edges_.push_back(offset + *edge);
  return *this;
}

Text& Text::operator+=(std::string_view own) {
  bytes_ += own;
  return *this;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t size = first_character(text).size;
    out.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

size_t count_characters(std::string_view text) {
  size_t n = 0;
  for (; !text.empty(); ++n) text.remove_prefix(first_character(text).size);
  return n;
}

std::string_view substring(std::string_view text, size_t from, size_t to) {
  size_t n = 0;
  for (; n < from && !text.empty(); ++n) text.remove_prefix(first_character(text).size);
  std::string_view rest = text;
  for (; n < to && !rest.empty(); ++n) rest.remove_prefix(first_character(rest).size);
  return text.substr(0, text.size() - rest.size());
}

std::string_view strip(std::string_view text, Side side) {
  return strip_if(text, side,
                  [](const Character& c, std::string_view) { return is_space(c.code); });
}

std::string_view strip(std::string_view text, std::string_view set, Side side) {
  return strip_if(text, side, [&](const Character&, std::string_view character) {
    return set.find(character) != set.npos;
  });
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    size_t at_most) {
  std::vector<std::string_view> out;
  for (; out.size() < at_most; text.remove_prefix(out.back().size() + separator.size())) {
    const size_t end = text.find(separator);
    if (end == text.npos) break;
    out.push_back(text.substr(0, end));
  }
  out.push_back(text);
  return out;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> out;
  for (text = strip(text, Side::kLeft); !text.empty(); text = strip(text, Side::kLeft)) {
    size_t size = 0;
    while (size < text.size()) {
      const Character c = first_character(text.substr(size));
      if (is_space(c.code)) break;
      size += c.size;
    }
    out.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    const Character c = first_character(text.substr(at));
    const size_t end = at;
    at += c.size;
    if (!ends_line(c.code)) continue;
    if (c.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

Text replace(const Text& text, std::string_view from, const Text& to, size_t at_most) {
  Text out;
  for (const std::string_view part : split(text.bytes(), from, at_most)) {
    if (part.data() != text.bytes().data()) out += to;
    out += text.part(part);
  }
  return out;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<int8_t>(c) >= 0; });
}

bool has_ascii_case(std::string_view text) {
  struct Range {
    char32_t from, to;
  };
  constexpr Range kCaseless[] = {
      {0, 0x7F},          {0xA0, 0xA9},       {0xAB, 0xB4},       {0xB6, 0xB9},
      {0xBB, 0xBF},       {0x590, 0x109F},    {0x2000, 0x20FF},   {0x2190, 0x24B5},
      {0x24EA, 0x2BFF},   {0x2E80, 0xA63F},   {0xAC00, 0xD7FF},   {0xF900, 0xFAFF},
      {0xFE10, 0xFE6F},   {0xFF00, 0xFF20},   {0xFF3B, 0xFF40},   {0xFF5B, 0xFFEF},
      {0x1F000, 0x1F12F}, {0x1F200, 0x1FAFF}, {0x20000, 0x3FFFF},
  };
  const std::vector<std::string_view> all = characters(text);
  return std::all_of(all.begin(), all.end(), [&](std::string_view character) {
    const char32_t code = first_character(character).code;
    return std::any_of(std::begin(kCaseless), std::end(kCaseless), [code](const Range& range) {
      return code >= range.from && code <= range.to;
    });
  });
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool is_printable(std::string_view character) {
  const char32_t c = first_character(character).code;
  const auto in = [c](char32_t from, char32_t to) { return c >= from && c <= to; };
  return !(c < 0x20 || in(0x7F, 0xA0) || c == 0xAD || in(0x600, 0x605) || c == 0x61C ||
           c == 0x6DD || c == 0x70F || c == 0x1680 || c == 0x180E || in(0x2000, 0x200F) ||
           in(0x2028, 0x202F) || in(0x205F, 0x206F) || c == 0x3000 || in(0xD800, 0xF8FF) ||
           c == 0xFEFF || in(0xFFF0, 0xFFFB) || c >= 0xE0000);
}

Text escaped(const Text& text) {
  constexpr std::string_view kPlain = "&<>'\"";
  constexpr const char* kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  Text out;
  for (const Text::Part& part : text.parts()) {
    std::string bytes;
    for (const char c : part.bytes) {
      const size_t i = kPlain.find(c);
      if (i == kPlain.npos) {
        bytes += c;
      } else {
        bytes += kEntities[i];
      }
    }
    out += Text(std::move(bytes), part.input);
  }
  return out;
}

std::string json_string(std::string_view text, bool ensure_ascii) {
  constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kShort = "\"\\nrtbf";
  std::string out = "\"";
  const auto escape = [&](uint32_t unit) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(unit & 0xFFFF));
    out += buffer;
  };
  for (const std::string_view character : characters(text)) {
    const char32_t code = first_character(character).code;
    if (const size_t i = kPlain.find(character); i != kPlain.npos) {
      out += '\\';
      out += kShort[i];
    } else if (code < 0x20 || (ensure_ascii && code > 0x7E && code < 0x10000)) {
      escape(code);
    } else if (ensure_ascii && code > 0xFFFF) {
      escape(0xD800 + ((code - 0x10000) >> 10));
      escape(0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      out += character;
    }
  }
  return out + '"';
}

std::string fixed_date(std::string_view pattern) {
  constexpr struct {
    char letter;
    const char* text;
  } kWords[] = {{'d', "26"},   {'e', "26"},   {'m', "07"},     {'b', "Jul"}, {'B', "July"},
                {'Y', "2024"}, {'y', "24"},   {'A', "Friday"}, {'a', "Fri"}, {'j', "208"},
                {'H', "00"},   {'M', "00"},   {'S', "00"},     {'I', "12"},  {'p', "AM"},
                {'%', "%"},    {'-', nullptr}};
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    if (++i == pattern.size()) return "";
    const bool short_form = pattern[i] == '-';  // without the zeros in front
    if (short_form && ++i == pattern.size()) return "";
    const auto* word = std::find_if(std::begin(kWords), std::end(kWords),
                                    [&](const auto& w) { return w.letter == pattern[i]; });
    if (word == std::end(kWords) || !word->text) return "";
    std::string_view text = word->text;
    while (short_form && text.size() > 1 && text[0] == '0') text.remove_prefix(1);
    out += text;
  }
  return out;
}

}  // namespace specbound::jinja
