#include "text/nfc.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "text/utf8.h"

namespace specbound {

namespace {

struct Character {
  char32_t code;   // a byte that is none of UTF-8 is kNoCharacter and the byte
  int mark_class;  // 0: no mark
};
constexpr char32_t kNoCharacter = 0x110000;

// Hangul: a leading consonant, a vowel and maybe a trailing consonant are a syllable.
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kLeadings = 19, kVowelCount = 21, kTrailings = 28;  // of those one is "none"
constexpr char32_t kSyllableCount = kLeadings * kVowelCount * kTrailings;

// No character before U+0300, the first that UTF-8 begins with this byte, changes or combines.
constexpr unsigned char kFirstLead = 0xCC;

const Decomposition* find_in(std::span<const Decomposition> table, char32_t whole) {
  const auto found = std::ranges::lower_bound(table, whole, {}, &Decomposition::whole);
  return found != table.end() && found->whole == whole ? &*found : nullptr;
}

int mark_class(char32_t c) {
  const auto table = mark_classes();
  const auto found = std::ranges::lower_bound(table, c, {}, &MarkClass::last);
  return found != table.end() && found->first <= c ? found->mark_class : 0;
}

void decompose(char32_t c, std::vector<Character>& out) {
  const auto add = [&out](char32_t part) { out.push_back({part, mark_class(part)}); };
  if (c < 0xC0) {
    out.push_back({c, 0});
  } else if (c - kSyllables < kSyllableCount) {
    const char32_t index = c - kSyllables, trailing = index % kTrailings;
    add(kLeading + index / (kVowelCount * kTrailings));
    add(kVowels + index / kTrailings % kVowelCount);
    if (trailing != 0) add(kTrailing + trailing);
  } else {
    const Decomposition* parts = find_in(composites(), c);
    if (!parts) parts = find_in(decomposed_for_good(), c);
    if (!parts) return add(c);
    decompose(parts->first, out);
    if (parts->second != 0) decompose(parts->second, out);
  }
}

// What two characters become; 0: they stay two.
char32_t composite(char32_t first, char32_t second) {
  if (first - kLeading < kLeadings && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailings;
  }
  if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailings == 0 &&
      second - kTrailing - 1 < kTrailings - 1) {
    return first + (second - kTrailing);
  }
  const auto parts = [](const Decomposition& d) { return std::tuple(d.first, d.second); };
  static const std::vector<Decomposition> kByParts = [&] {
    std::vector<Decomposition> sorted(composites().begin(), composites().end());
    std::ranges::sort(sorted, {}, parts);
    return sorted;
  }();
  const auto found = std::ranges::lower_bound(kByParts, std::tuple(first, second), {}, parts);
  const bool is = found != kByParts.end() && parts(*found) == std::tuple(first, second);
  return is ? found->whole : 0;
}

// Marks behind a character stand in the order of their classes.
void order_marks(std::vector<Character>& text) {
  const auto is_mark = [](const Character& c) { return c.mark_class != 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    const auto end = std::find_if_not(begin, text.end(), is_mark);
    std::ranges::stable_sort(begin, end, {}, &Character::mark_class);
    begin = std::find_if(end, text.end(), is_mark);
  }
}

// Each character joins the last one that is no mark, unless one between has its class or a higher.
void compose(std::vector<Character>& text) {
  size_t size = 0, base = 0;
  int last_class = 0;  // of what stands behind the base
  bool has_base = false;
  for (const Character c : text) {
    const bool adjacent = has_base && size == base + 1;
    if (has_base && (adjacent || last_class < c.mark_class)) {
      if (const char32_t whole = composite(text[base].code, c.code)) {
        text[base].code = whole;
        continue;
      }
    }
    if (c.mark_class == 0) {
      base = size;
      has_base = true;
    }
    last_class = c.mark_class;
    text[size++] = c;
  }
  text.erase(text.begin() + static_cast<ptrdiff_t>(size), text.end());
}

}  // namespace

std::string composed(std::string_view text) {
  const auto may_change = [](char c) { return static_cast<unsigned char>(c) >= kFirstLead; };
  if (std::ranges::none_of(text, may_change)) return std::string(text);
  std::vector<Character> characters;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Head head = utf8_head(rest);
    if (head.kind == Utf8Head::kWhole) {
      decompose(head.code, characters);
    } else {
      for (const char byte : rest.substr(0, head.length)) {
        characters.push_back({kNoCharacter + static_cast<unsigned char>(byte), 0});
      }
    }
    rest.remove_prefix(head.length);
  }
  order_marks(characters);
  compose(characters);
  std::string out;
  for (const Character& c : characters) {
    if (c.code >= kNoCharacter) {
      out += static_cast<char>(c.code - kNoCharacter);
    } else {
      out += to_utf8(c.code);
    }
  }
  return out;
}

}  // namespace specbound
