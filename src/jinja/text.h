// Strings as Python handles them, for Jinja templates. All are UTF-8; bytes that are none count as
// characters of their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace specbound::jinja {

// A string that knows which of its bytes came out of a message: these are input, in which control
// tokens stay text. Whatever a template makes of a string keeps the marks; what loses track of
// bytes marks its whole result.
class Text {
 public:
  struct Part {
    std::string_view bytes;
    bool input;
  };

  Text() = default;
  explicit Text(std::string bytes, bool input = false);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool has_input() const { return !edges_.empty(); }
  // In order, none of them empty.
  std::vector<Part> parts() const;

  // Precondition: `view` lies in bytes().
  Text part(std::string_view view) const;
  Text& operator+=(const Text& other);
  Text& operator+=(std::string_view own);

 private:
  std::string bytes_;
  std::vector<size_t> edges_;  // where input begins and ends, in turn
};

std::vector<std::string_view> characters(std::string_view text);
size_t count_characters(std::string_view text);

// Characters [from, to) counted from the front; any values.
std::string_view substring(std::string_view text, size_t from, size_t to);

enum class Side { kLeft, kRight, kBoth };
// str.strip(), lstrip(), rstrip(): Unicode white space.
std::string_view strip(std::string_view text, Side side = Side::kBoth);
// The same for the characters in `set`.
std::string_view strip(std::string_view text, std::string_view set, Side side = Side::kBoth);

// str.split(separator, at_most); the separator is not empty. at_most -1: all.
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    size_t at_most = -1);
// str.split(): at white space, no empty parts.
std::vector<std::string_view> split_words(std::string_view text);
std::vector<std::string_view> split_lines(std::string_view text);

// str.replace(from, to, at_most). `from` is not empty.
Text replace(const Text& text, std::string_view from, const Text& to, size_t at_most = -1);

// ASCII letters only. has_ascii_case() says where that is all there is to it: other characters are
// of scripts and signs that know no case.
bool has_ascii_case(std::string_view text);
bool is_ascii(std::string_view text);
std::string upper(std::string_view text);
std::string lower(std::string_view text);

// Whether repr() leaves a character as it is: no control, format or white space. Of unassigned ones
// too.
bool is_printable(std::string_view character);

// markupsafe.escape(): for HTML.
Text escaped(const Text& text);

// A string of JSON, quotes included.
std::string json_string(std::string_view text, bool ensure_ascii);

// The only day on which templates are rendered, Friday 26 July 2024, in the words of strftime's
// `pattern`; a reply must not depend on the day it is made. Empty if it asks for more than a date.
std::string fixed_date(std::string_view pattern);

}  // namespace specbound::jinja
