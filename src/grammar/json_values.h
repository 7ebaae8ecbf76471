// JSON as rules, without a schema: white space, texts, numbers within bounds, values of any kind.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/rules.h"

namespace specbound {

class JsonValues {
 public:
  using Id = GrammarRules::Id;

  // `in_tags`: `<` stands nowhere, texts have it as \u003c.
  explicit JsonValues(GrammarRules& rules, bool in_tags = false)
      : rules_(rules), in_tags_(in_tags) {}
  GrammarRules& rules() { return rules_; }
  // JSON that is known, as it stands there.
  std::string written(std::string json) const;

  // White space where a line may end, and where one goes on: bounded, so that nothing but white
  // space cannot come for ever.
  Id space();
  Id gap() { return rules_.optional(rules_.literal(" ")); }

  Id any();
  Id any_object();
  Id any_array();
  Id boolean() { return rules_.choice({rules_.literal("true"), rules_.literal("false")}); }
  Id null() { return rules_.literal("null"); }
  // Of so many characters; kUnbounded: no end to them. Those of the same bounds are one rule.
  Id string(int least, int most);
  Id string() { return string(0, GrammarRules::kUnbounded); }
  Id quoted(Id inside) {
    return rules_.sequence({rules_.literal("\""), inside, rules_.literal("\"")});
  }
  // One of these characters as it stands in a text: escaped where it must be, and only there.
  Id character(const std::vector<CodeRange>& ranges);
  // The inside of a text that is none of these. Their lengths are bounded by kMaxUnlike.
  static constexpr size_t kMaxUnlike = 256;
  Id unlike(std::vector<std::u32string> texts);

  Id integer();
  Id integer(int64_t low, int64_t high);  // low <= high
  Id number();
  struct Bounds {
    std::optional<int64_t> low, high;
    bool without_low = false, without_high = false;  // exclusive
  };
  static constexpr int64_t kMaxBound = int64_t{1} << 53, kMaxOpenBound = 1'000'000'000;
  // nullopt where nothing lies between. Bounds are at most kMaxBound, exclusive ones kMaxOpenBound,
  // either way from 0.
  std::optional<Id> number(const Bounds& bounds);

  // "{", what `inside` is, "}"; the same of an array.
  Id braces(Id inside) { return enclosed("{", inside, "}"); }
  Id brackets(Id inside) { return enclosed("[", inside, "]"); }
  Id comma() { return rules_.sequence({rules_.literal(","), space()}); }
  // `key` is the key with its quotes.
  Id member(Id key, Id value) { return rules_.sequence({key, rules_.literal(":"), gap(), value}); }
  // None or more of these, the first without a comma.
  Id members(Id member);

 private:
  static constexpr int kNone = -1;

  Id enclosed(std::string_view open, Id inside, std::string_view close);
  std::vector<CodeRange> escaped() const;
  int any_rule();
  int character_rule();
  Id unlike_from(std::span<const std::u32string> texts, size_t at);
  Id digits(int least, int most);
  Id digit(char low, char high);
  Id same_length(std::string_view low, std::string_view high);
  Id at_least(std::string_view low);
  Id at_most(std::string_view high);
  Id natural(uint64_t low, uint64_t high);
  std::vector<Id> positive(int64_t low, int64_t high, bool without_low, bool without_high);

  GrammarRules& rules_;
  const bool in_tags_;
  int space_ = kNone, any_ = kNone, character_ = kNone;
  std::map<std::pair<int, int>, int> strings_;  // rules by their bounds
};

}  // namespace specbound
