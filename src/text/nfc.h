// Canonical composition of text (NFC, Unicode Standard Annex 15): an e and an accent become one
// character. The tables are of Unicode 14; what was assigned by then composes in the same way in
// every later version.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace specbound {

// The same text composed. Bytes that are no UTF-8 stay what they are, and nothing composes across
// them.
std::string composed(std::string_view text);

// A character and what it is canonically equal to; `second` 0: one other character.
struct Decomposition {
  char32_t whole, first, second = 0;
};
// Each ascending, without the syllables of Hangul: characters that composition makes, and those
// that it never does.
std::span<const Decomposition> composites();
std::span<const Decomposition> decomposed_for_good();

// Canonical combining class of characters first..last, ascending; all others have 0.
struct MarkClass {
  char32_t first, last;
  unsigned char mark_class;
};
std::span<const MarkClass> mark_classes();

}  // namespace specbound
