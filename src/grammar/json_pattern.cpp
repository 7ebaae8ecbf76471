#include "grammar/json_pattern.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "error.h"
#include "text/utf8.h"

namespace specbound {
namespace {

using Id = GrammarRules::Id;
using Ranges = std::vector<CodeRange>;

constexpr int kMaxPatternDepth = 64;  // of groups
constexpr int kMaxCounted = 10'000;   // in {m,n}

struct Format {
  std::string_view name, pattern;
};
// Fewer than RFC 3339 and its kin have: each of these is one of theirs.
#define SPECBOUND_DATE                                              \
  "[1-9][0-9]{3}-((01|03|05|07|08|10|12)-(0[1-9]|[12][0-9]|3[01])|" \
  "(04|06|09|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define SPECBOUND_TIME \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
constexpr Format kFormats[] = {
    {"date", "^" SPECBOUND_DATE "$"},
    {"time", "^" SPECBOUND_TIME "$"},
    {"date-time", "^" SPECBOUND_DATE "T" SPECBOUND_TIME "$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"email",
     "^[a-z0-9]{1,16}([._+-][a-z0-9]{1,16}){0,3}@[a-z0-9]{1,16}([.-][a-z0-9]{1,16}){0,3}"
     "\\.[a-z]{2,8}$"},
    {"ipv4",
     "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}"
     "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$"},
};
#undef SPECBOUND_DATE
#undef SPECBOUND_TIME

class PatternReader {
 public:
  PatternReader(std::string_view pattern, JsonValues& values)
      : pattern_(pattern), values_(values), rules_(values.rules()) {
    for (std::string_view rest = pattern; !rest.empty();) {
      const Utf8Head head = utf8_head(rest);
      text_ += head.kind == Utf8Head::kWhole ? head.code : U'\ufffd';
      rest.remove_prefix(static_cast<size_t>(head.length));
    }
  }

  Id read() {
    if (!take('^')) unsupported("a pattern that begins with ^, as it speaks of a whole text");
    if (text_.size() < 2 || text_.back() != '$' || escaped_end()) {
      unsupported("a pattern that ends with $, as it speaks of a whole text");
    }
    text_.pop_back();
    const Id whole = alternatives(0);
    if (at_ < text_.size())
      unsupported(peek() == '|' ? "alternatives in a group" : "a group's end");
    return whole;
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& expected) const {
    throw Error(code, "expected " + expected + ", found \"" + printable(pattern_) + '"');
  }
  [[noreturn]] void unsupported(const std::string& expected) const {
    fail(ErrorCode::kUnsupported, expected);
  }

  // The last $ is a character, behind an odd number of backslashes.
  bool escaped_end() const {
    size_t n = 0;
    while (n + 1 < text_.size() && text_[text_.size() - 2 - n] == '\\') ++n;
    return n % 2 == 1;
  }

  char32_t peek() const { return at_ < text_.size() ? text_[at_] : 0; }
  bool take(char32_t c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char32_t next(const char* expected) {
    if (at_ >= text_.size()) fail(ErrorCode::kUsage, expected);
    return text_[at_++];
  }

  // A | at the top would take the anchors apart.
  Id alternatives(int depth) {
    if (depth > kMaxPatternDepth)
      fail(ErrorCode::kLimit, format("groups %d deep at most", kMaxPatternDepth));
    std::vector<Id> all = {sequence(depth)};
    while (depth > 0 && take('|')) all.push_back(sequence(depth));
    return rules_.choice(std::move(all));
  }

  Id sequence(int depth) {
    std::vector<Id> all;
    while (at_ < text_.size() && peek() != '|' && peek() != ')') all.push_back(repeated(depth));
    return all.empty() ? rules_.empty() : rules_.sequence(std::move(all));
  }

  Id repeated(int depth) {
    Id part = one(depth);
    int least = 0, most = GrammarRules::kUnbounded;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      least = most = number();
      if (take(',')) most = peek() == '}' ? GrammarRules::kUnbounded : number();
      if (!take('}')) fail(ErrorCode::kUsage, "} behind a count");
      if (most != GrammarRules::kUnbounded && most < least) {
        fail(ErrorCode::kUsage, "a count {least,most}");
      }
    } else {
      return part;
    }
    const char32_t c = peek();
    if (c == '*' || c == '+' || c == '?' || c == '{') unsupported("one count behind a part");
    return rules_.repeat(part, least, most);
  }

  int number() {
    int value = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<int>(peek() - '0');
      if (value > kMaxCounted) {
        fail(ErrorCode::kLimit, format("counts of at most %d", kMaxCounted));
      }
    }
    if (at_ == begin) fail(ErrorCode::kUsage, "a number behind {");
    return value;
  }

  Id one(int depth) {
    const char32_t c = next("a character");
    switch (c) {
      case '(': {
        if (take('?') && !take(':')) unsupported("groups without (?=, (?!, (?<, (?i");
        const Id group = alternatives(depth + 1);
        if (!take(')')) fail(ErrorCode::kUsage, "a ) for each (");
        return group;
      }
      case '[':
        return values_.character(char_class());
      case '.':
        return values_.character(all_but({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      case '\\':
        return values_.character(escape(nullptr));
      case '^':
      case '$':
        unsupported("^ at the beginning alone, $ at the end alone");
      case '*':
      case '+':
      case '?':
      case '{':
      case '}':
      case ']':
        fail(ErrorCode::kUsage, "an escape or a part before a count");
      default:
        return values_.character({{c, c}});
    }
  }

  Ranges char_class() {
    const bool without = take('^');
    Ranges ranges;
    bool named = false;
    while (!take(']')) {
      const char32_t c = next("a ] for each [");
      bool set = false;
      Ranges first = {{c, c}};
      if (c == '\\') first = escape(&set);
      named = named || set;
      if (!set && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        char32_t last = next("the end of a range");
        if (last == '\\') {
          bool is_set = false;
          const Ranges end = escape(&is_set);
          if (is_set) fail(ErrorCode::kUsage, "a character at the end of a range");
          last = end[0].first;
        }
        if (last < first[0].first) fail(ErrorCode::kUsage, "a range that ascends");
        first[0].last = last;
      }
      ranges.insert(ranges.end(), first.begin(), first.end());
    }
    if (!without) return ranges;
    // What \d, \w and \s are beyond ASCII differs between dialects.
    if (!named) return all_but(std::move(ranges));
    ranges.push_back({0x80, kLastCode});
    return all_but(std::move(ranges));
  }

  // What stands behind a backslash. `set`: whether it is more than one character.
  Ranges escape(bool* set) {
    const char32_t c = next("a character behind a backslash");
    Ranges named;
    switch (c) {
      case 'd':
      case 'D':
        named = {{'0', '9'}};
        break;
      case 'w':
      case 'W':
        named = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}};
        break;
      case 's':
      case 'S':
        named = {{' ', ' '}, {'\t', '\r'}};
        break;
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 't':
        return {{'\t', '\t'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      default:
        if (c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c >= '0' && c <= '9')) {
          unsupported("the escapes \\d \\w \\s \\D \\W \\S \\n \\r \\t \\f \\v \\x \\u alone");
        }
        return {{c, c}};
    }
    if (set) *set = true;
    if (c >= 'a') return named;
    named.push_back({0x80, kLastCode});
    return all_but(std::move(named));
  }

  Ranges hex(int digits) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t c = next("hexadecimal digits");
      const int value = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                               : -1;
      if (value < 0) fail(ErrorCode::kUsage, "hexadecimal digits");
      code = code * 16 + static_cast<char32_t>(value);
    }
    if (code >= 0xd800 && code <= 0xdfff) unsupported("characters, not surrogates");
    return {{code, code}};
  }

  std::string_view pattern_;
  JsonValues& values_;
  GrammarRules& rules_;
  std::u32string text_;
  size_t at_ = 0;
};

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  const auto known = std::ranges::find(kFormats, format, &Format::name);
  return known == std::end(kFormats) ? std::string_view() : known->pattern;
}

std::string pattern_formats() {
  return joined(kFormats, ", ", [](const Format& f) { return std::string(f.name); });
}

GrammarRules::Id json_pattern(std::string_view pattern, JsonValues& values) {
  return PatternReader(pattern, values).read();
}

}  // namespace specbound
