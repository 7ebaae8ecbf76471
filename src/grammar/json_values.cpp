#include "grammar/json_values.h"

#include <algorithm>
#include <limits>

#include "error.h"
#include "text/utf8.h"

namespace specbound {
namespace {

using Id = GrammarRules::Id;

constexpr int kMaxIndent = 20, kMaxDigits = 16;
// Of a number within bounds: so few that reading it as a double rounds none onto a bound.
constexpr int kMaxFraction = 6;
constexpr int64_t kMaxWhole = 9'999'999'999'999'999;  // of kMaxDigits

std::vector<CodeRange> without(const std::vector<CodeRange>& ranges,
                               const std::vector<CodeRange>& others) {
  std::vector<CodeRange> outside = all_but(ranges);
  outside.insert(outside.end(), others.begin(), others.end());
  return all_but(std::move(outside));
}

bool contains(const std::vector<CodeRange>& ranges, char32_t code) {
  return std::ranges::any_of(
      ranges, [code](const CodeRange& r) { return r.first <= code && code <= r.last; });
}

}  // namespace

std::string JsonValues::written(std::string json) const {
  for (size_t at = json.find('<'); in_tags_ && at != json.npos; at = json.find('<', at)) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

// What a text cannot have as it is.
std::vector<CodeRange> JsonValues::escaped() const {
  std::vector<CodeRange> ranges = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {0x7f, 0x7f}};
  if (in_tags_) ranges.push_back({'<', '<'});
  return ranges;
}

Id JsonValues::space() {
  if (space_ == kNone) {
    space_ = rules_.declare("white space");
    const Id indent = rules_.repeat(rules_.characters({{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent);
    const Id line = rules_.sequence({rules_.literal("\n"), indent});
    rules_.define(space_, rules_.choice({rules_.literal(" "), line, rules_.empty()}));
  }
  return rules_.rule(space_);
}

// A character of a text: escaped or not, \u too, which names one character.
int JsonValues::character_rule() {
  if (character_ != kNone) return character_;
  character_ = rules_.declare("character of a text");
  const auto hex = [&](int n) {
    return rules_.repeat(rules_.characters({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), n, n);
  };
  const auto either = [&](const char* of) {
    std::vector<CodeRange> ranges;
    for (; *of != '\0'; ++of)
      ranges.push_back({static_cast<char32_t>(*of), static_cast<char32_t>(*of)});
    return rules_.characters(std::move(ranges));
  };
  const Id u = rules_.literal("\\u"), d = either("dD");
  const Id low = rules_.characters({{'0', '7'}});
  rules_.define(character_,
                rules_.choice({rules_.characters(all_but(escaped())),
                               rules_.sequence({rules_.literal("\\"), either("\"\\/bfnrt")}),
                               rules_.sequence({u, either("0123456789abcefABCEF"), hex(3)}),
                               rules_.sequence({u, d, low, hex(2)}),
                               rules_.sequence({u, d, either("89abAB"), hex(2), u, d,
                                                either("cdefCDEF"), hex(2)})}));
  return character_;
}

Id JsonValues::string(int least, int most) {
  const auto [at, fresh] = strings_.try_emplace({least, most}, 0);
  if (fresh) {
    at->second = rules_.declare("text");
    rules_.define(at->second, quoted(rules_.repeat(rules_.rule(character_rule()), least, most)));
  }
  return rules_.rule(at->second);
}

Id JsonValues::character(const std::vector<CodeRange>& ranges) {
  std::vector<Id> all;
  const std::vector<CodeRange> never = escaped();
  const std::vector<CodeRange> plain = without(ranges, never);
  if (!plain.empty()) all.push_back(rules_.characters(plain));
  constexpr std::pair<char32_t, const char*> kEscaped[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"},
      {'\t', "\\t"}, {'\b', "\\b"},  {'\f', "\\f"}};
  for (char32_t code = 0; code < 0x80; ++code) {
    if (!contains(ranges, code) || !contains(never, code)) continue;
    const auto known = std::ranges::find(kEscaped, code, [](const auto& e) { return e.first; });
    if (known != std::end(kEscaped)) {
      all.push_back(rules_.literal(known->second));
    } else {
      all.push_back(rules_.literal(format("\\u%04x", static_cast<unsigned>(code))));
    }
  }
  return all.empty() ? rules_.characters({}) : rules_.choice(std::move(all));
}

Id JsonValues::unlike(std::vector<std::u32string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return unlike_from(texts, 0);
}

// Behind the first `at` characters, which all of `texts` (ascending, at least one) begin with.
Id JsonValues::unlike_from(std::span<const std::u32string> texts, size_t at) {
  const std::vector<CodeRange> every = {{0x20, kLastCode}};
  std::vector<Id> all;
  std::vector<CodeRange> taken;
  const bool is_one = !texts.empty() && texts.front().size() == at;
  if (is_one) texts = texts.subspan(1);
  while (!texts.empty()) {
    const char32_t code = texts.front()[at];
    const auto last =
        std::ranges::find_if(texts, [&](const std::u32string& text) { return text[at] != code; });
    const auto n = static_cast<size_t>(last - texts.begin());
    taken.push_back({code, code});
    all.push_back(
        rules_.sequence({character({{code, code}}), unlike_from(texts.first(n), at + 1)}));
    texts = texts.subspan(n);
  }
  const Id rest = rules_.repeat(character(every), 0, GrammarRules::kUnbounded);
  all.push_back(rules_.sequence({character(without(every, taken)), rest}));
  if (!is_one) all.push_back(rules_.empty());
  return rules_.choice(std::move(all));
}

// ---- numbers ----

Id JsonValues::digit(char low, char high) {
  return rules_.characters({{static_cast<char32_t>(low), static_cast<char32_t>(high)}});
}

Id JsonValues::digits(int least, int most) {
  return rules_.repeat(digit('0', '9'), least, most);
}

Id JsonValues::integer() {
  const Id whole = rules_.choice(
      {rules_.literal("0"), rules_.sequence({digit('1', '9'), digits(0, kMaxDigits - 1)})});
  return rules_.sequence({rules_.optional(rules_.literal("-")), whole});
}

Id JsonValues::number() {
  const Id part = rules_.sequence({rules_.literal("."), digits(1, kMaxDigits)});
  const Id sign = rules_.optional(rules_.characters({{'+', '+'}, {'-', '-'}}));
  const Id power =
      rules_.sequence({rules_.characters({{'e', 'e'}, {'E', 'E'}}), sign, digits(1, 2)});
  return rules_.sequence({integer(), rules_.optional(part), rules_.optional(power)});
}

Id JsonValues::at_least(std::string_view low) {
  if (low.empty()) return rules_.empty();
  const int rest = static_cast<int>(low.size()) - 1;
  std::vector<Id> all = {
      rules_.sequence({rules_.literal(low.substr(0, 1)), at_least(low.substr(1))})};
  if (low[0] < '9') {
    all.push_back(rules_.sequence({digit(static_cast<char>(low[0] + 1), '9'), digits(rest, rest)}));
  }
  return rules_.choice(std::move(all));
}

Id JsonValues::at_most(std::string_view high) {
  if (high.empty()) return rules_.empty();
  const int rest = static_cast<int>(high.size()) - 1;
  std::vector<Id> all = {
      rules_.sequence({rules_.literal(high.substr(0, 1)), at_most(high.substr(1))})};
  if (high[0] > '0') {
    all.push_back(
        rules_.sequence({digit('0', static_cast<char>(high[0] - 1)), digits(rest, rest)}));
  }
  return rules_.choice(std::move(all));
}

Id JsonValues::same_length(std::string_view low, std::string_view high) {
  if (low.empty()) return rules_.empty();
  if (low[0] == high[0]) {
    return rules_.sequence(
        {rules_.literal(low.substr(0, 1)), same_length(low.substr(1), high.substr(1))});
  }
  const int rest = static_cast<int>(low.size()) - 1;
  std::vector<Id> all = {
      rules_.sequence({rules_.literal(low.substr(0, 1)), at_least(low.substr(1))}),
      rules_.sequence({rules_.literal(high.substr(0, 1)), at_most(high.substr(1))})};
  if (low[0] + 1 < high[0]) {
    all.push_back(
        rules_.sequence({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                         digits(rest, rest)}));
  }
  return rules_.choice(std::move(all));
}

// Digits of a number from low to high, by how many there are.
Id JsonValues::natural(uint64_t low, uint64_t high) {
  std::vector<Id> all;
  uint64_t from = low;
  for (;;) {
    const std::string first = std::to_string(from);
    const std::string nines(first.size(), '9');
    const bool last = first.size() >= std::to_string(high).size();
    all.push_back(same_length(first, last ? std::to_string(high) : nines));
    if (last) break;
    from = std::stoull(nines) + 1;
  }
  return rules_.choice(std::move(all));
}

Id JsonValues::integer(int64_t low, int64_t high) {
  const auto size = [](int64_t value) { return ~static_cast<uint64_t>(value) + 1; };  // of -value
  std::vector<Id> all;
  if (low < 0) {
    const uint64_t least = high < 0 ? size(high) : 1;
    all.push_back(rules_.sequence({rules_.literal("-"), natural(least, size(low))}));
  }
  if (high >= 0)
    all.push_back(
        natural(static_cast<uint64_t>(std::max<int64_t>(low, 0)), static_cast<uint64_t>(high)));
  return rules_.choice(std::move(all));
}

// Numbers from low to high, 0 <= low <= high, without a sign.
std::vector<Id> JsonValues::positive(int64_t low, int64_t high, bool without_low,
                                     bool without_high) {
  std::vector<Id> all;
  if (low == high) {
    if (!without_low && !without_high) all.push_back(rules_.literal(std::to_string(low)));
    return all;
  }
  const Id part = rules_.optional(rules_.sequence({rules_.literal("."), digits(1, kMaxFraction)}));
  const Id first = rules_.literal(std::to_string(low));
  if (without_low) {
    all.push_back(rules_.sequence(
        {first, rules_.literal("."), digits(0, kMaxFraction - 1), digit('1', '9')}));
  } else {
    all.push_back(rules_.sequence({first, part}));
  }
  if (low + 1 < high) {
    all.push_back(rules_.sequence(
        {natural(static_cast<uint64_t>(low) + 1, static_cast<uint64_t>(high) - 1), part}));
  }
  if (!without_high) all.push_back(rules_.literal(std::to_string(high)));
  return all;
}

std::optional<Id> JsonValues::number(const Bounds& bounds) {
  const int64_t low = bounds.low.value_or(std::min(-kMaxWhole, bounds.high.value_or(0)));
  const int64_t high = bounds.high.value_or(std::max(kMaxWhole, low));
  if (low > high) return std::nullopt;
  std::vector<Id> all;
  if (low < 0) {
    const bool crosses = high >= 0;
    std::vector<Id> sizes = positive(crosses ? 0 : -high, -low,
                                     crosses ? true : bounds.without_high, bounds.without_low);
    if (!sizes.empty()) {
      all.push_back(rules_.sequence({rules_.literal("-"), rules_.choice(std::move(sizes))}));
    }
  }
  if (high >= 0) {
    std::vector<Id> sizes = positive(std::max<int64_t>(low, 0), high,
                                     low >= 0 && bounds.without_low, bounds.without_high);
    all.insert(all.end(), sizes.begin(), sizes.end());
  }
  if (all.empty()) return std::nullopt;
  return rules_.choice(std::move(all));
}

// ---- values ----

Id JsonValues::enclosed(std::string_view open, Id inside, std::string_view close) {
  return rules_.sequence({rules_.literal(open), space(), inside, space(), rules_.literal(close)});
}

Id JsonValues::members(Id member) {
  const Id more = rules_.repeat(rules_.sequence({comma(), member}), 0, GrammarRules::kUnbounded);
  return rules_.optional(rules_.sequence({member, more}));
}

Id JsonValues::any_object() {
  return braces(members(member(string(), any())));
}

Id JsonValues::any_array() {
  return brackets(members(any()));
}

int JsonValues::any_rule() {
  if (any_ != kNone) return any_;
  any_ = rules_.declare("any value");
  const std::vector<Id> kinds = {any_object(), any_array(), string(), number(), boolean(), null()};
  rules_.define(any_, rules_.choice(kinds));
  return any_;
}

Id JsonValues::any() {
  return rules_.rule(any_rule());
}

}  // namespace specbound
