#include "text/jinja_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace specbound::jinja {

namespace {

struct Character {
  char32_t code;  // of a byte that is no UTF-8: above U+10FFFF
  size_t size;
};

// The character that a text which is not empty begins with.
Character first_character(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const Character broken = {0x110000u + lead, 1};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return broken;
  char32_t code = lead & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xC0) != 0x80) return broken;
    code = code << 6 | (at(i) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return broken;
  return {code, size};
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

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    size_t at_most) {
  std::string out;
  for (const std::string_view part : split(text, from, at_most)) {
    if (part.data() != text.data()) out += to;
    out += part;
  }
  return out;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<int8_t>(c) >= 0; });
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

std::string utf8(char32_t c) {
  std::string out;
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return out;
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
  return out;
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
