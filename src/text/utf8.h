// UTF-8 (Unicode 15, section 3.9): the only decoder and encoder of this program.
//
// Bytes that are no character are handled as Unicode recommends: a maximal subpart, which is the
// longest run that starts a character, or else a single byte, counts as one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace specbound {

// What text begins with.
struct Utf8Head {
  enum Kind {
    kWhole,  // a well-formed character
    kCut,    // all of the text starts a character that has more bytes
    kBroken  // a maximal subpart that no bytes can complete
  };
  Kind kind;
  int length;         // bytes of it, 1..4
  char32_t code = 0;  // of a whole character
};
// Precondition: text is not empty.
Utf8Head utf8_head(std::string_view text);

// The code point of a whole character; of a byte that is none, the byte.
char32_t code_point(std::string_view character);

// The UTF-8 of a code point; nothing for one that has none.
std::string to_utf8(char32_t code_point);

// How many bytes of `text` come before the first that is no part of a well-formed character.
size_t utf8_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) {
  return utf8_prefix(text) == text.size();
}

// Bytes as text: U+FFFD stands for each maximal subpart that is no character.
std::string shown_utf8(std::string_view bytes);

// Controls (C1 included), format characters, variation selectors, noncharacters: they steer what
// stands around them, or do nothing. XML forbids some.
bool is_shapeless(char32_t code_point);

// Turns a stream of byte pieces into a stream of whole characters: what is printed never ends in
// half of one. U+FFFD stands for each maximal subpart that cannot become a character, so the result
// does not depend on how the bytes were cut into pieces.
class Utf8Stream {
 public:
  // What can be shown after these bytes; an unfinished character is kept back.
  std::string push(std::string_view bytes);
  // What was kept back, at the end of the text (U+FFFD for an unfinished character).
  std::string finish();

 private:
  std::string pending_;  // at most 3 bytes, the start of a valid character
};

}  // namespace specbound
