// Turns a stream of byte pieces into a stream of whole UTF-8 characters: what is printed never ends
// in half a character. Bytes that cannot become one are replaced by U+FFFD, one for each maximal
// subpart (the longest run that starts a character, or a single byte), as Unicode 15 section 3.9
// recommends: the result does not depend on how the bytes were cut into pieces.
#pragma once

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
  int length;  // bytes of it, 1..4
};
// Precondition: text is not empty.
Utf8Head utf8_head(std::string_view text);

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
