// A grammar as it is read, before it becomes an automaton: named rules over expressions. What reads
// GBNF and JSON schemas builds these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace specbound {

struct CodeRange {
  char32_t first, last;

  bool operator==(const CodeRange&) const = default;
};
inline constexpr char32_t kLastCode = 0x10ffff;

// Ascending, apart from each other; surrogates, which no text has, are left out.
std::vector<CodeRange> normalized(std::vector<CodeRange> ranges);
// All characters but these.
std::vector<CodeRange> all_but(std::vector<CodeRange> ranges);

class GrammarRules {
 public:
  using Id = int32_t;  // of an expression
  static constexpr size_t kMaxExpressions = size_t{1} << 18;
  static constexpr size_t kMaxName = 200;
  static constexpr int kUnbounded = -1;

  enum class Kind : uint8_t {
    kEmpty,
    kLiteral,
    kCharacters,
    kUntil,
    kWithout,
    kRule,
    kSequence,
    kChoice,
    kRepeat
  };
  struct Expression {
    Kind kind = Kind::kEmpty;
    bool control = false;            // of a literal: a control token may stand for it
    bool free = false;               // of characters: they are of text as it likes
    int32_t a = 0, b = 0;            // kRule: which; kRepeat: least and most
    std::string bytes;               // kLiteral
    std::vector<std::string> marks;  // kUntil, kWithout
    std::vector<CodeRange> ranges;   // kCharacters, normalized
    std::vector<Id> parts;           // of a kRepeat one
  };

  // All throw Error(kLimit) for more than kMaxExpressions.
  Id empty() { return add({}); }
  Id literal(std::string_view bytes, bool control = false);
  // Any bytes and control tokens, up to the first place where one of `marks`, none of them empty,
  // stands, and with it; the other: any in which none of them stands.
  Id until(std::vector<std::string> marks) { return unlike(Kind::kUntil, std::move(marks)); }
  Id without(std::vector<std::string> marks) { return unlike(Kind::kWithout, std::move(marks)); }
  // One of these characters. `free`: of text as it likes, as those two are.
  Id characters(std::vector<CodeRange> ranges, bool free = false);
  Id rule(int which);
  Id sequence(std::vector<Id> parts);
  Id choice(std::vector<Id> parts);
  // One of these texts, at least one: what several begin with stands there once, so that however
  // many there are, they are read in few ways.
  Id one_of(std::vector<std::string> texts);
  Id repeat(Id part, int least, int most);
  Id optional(Id part) { return repeat(part, 0, 1); }

  // A rule by this name, to be defined once; `name` is for messages, which show its begin.
  int declare(std::string name);
  void define(int rule, Id expression) { bodies_[static_cast<size_t>(rule)] = expression; }
  bool defined(int rule) const { return bodies_[static_cast<size_t>(rule)] >= 0; }

  int n_rules() const { return static_cast<int>(names_.size()); }
  const std::string& name(int rule) const { return names_[static_cast<size_t>(rule)]; }
  const Expression& body(int rule) const { return (*this)[bodies_[static_cast<size_t>(rule)]]; }
  Id body_id(int rule) const { return bodies_[static_cast<size_t>(rule)]; }
  const Expression& operator[](Id id) const { return expressions_[static_cast<size_t>(id)]; }

 private:
  Id add(Expression expression);
  Id unlike(Kind kind, std::vector<std::string> marks);
  Id one_of(std::span<const std::string> texts, size_t at);

  std::vector<Expression> expressions_;
  std::vector<std::string> names_;
  std::vector<Id> bodies_;  // -1: not yet
};

}  // namespace specbound
