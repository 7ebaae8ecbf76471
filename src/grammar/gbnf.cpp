// GBNF as llama.cpp writes it: `name ::= ...` with literals, classes, `.`, groups, alternatives and
// repetitions; # begins a comment. An alternative goes on in the next line inside of a group, or
// behind `|` and `::=`.
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "error.h"
#include "grammar/grammar.h"
#include "text/utf8.h"

namespace specbound {
namespace {

constexpr int kMaxDepth = 100;         // of groups
constexpr int kMaxRepeats = 100'000;   // in {m,n}
constexpr size_t kMaxNameBytes = 200;  // of a rule

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Reader {
 public:
  using Id = GrammarRules::Id;

  Reader(std::string_view text, GrammarRules& rules) : text_(text), rules_(rules) {}

  int read() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // the byte order mark of some editors
    for (skip(true); at_ < text_.size(); skip(true)) read_rule();
    for (const auto& [name, rule] : named_) {
      if (rules_.defined(rule)) continue;
      line_ = first_named_[rule];
      fail("expected a rule \"" + name + "\", which is named here, found none");
    }
    const auto root = named_.find("root");
    if (root == named_.end()) fail("expected a rule \"root\", found none");
    return root->second;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kUsage, format("grammar, line %d: ", line_) + what);
  }
  [[noreturn]] void expected(const std::string& what) const {
    const std::string_view rest = text_.substr(at_, 20);
    const std::string_view here = rest.substr(0, rest.find('\n'));
    fail("expected " + what + ", found " +
         (here.empty() ? "the end of the line" : '"' + printable(here) + '"'));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // Blanks and comments; line ends too where `lines`.
  void skip(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
        if (at_ == text_.size() || !lines) return;
      }
      const bool ends = text_[at_] == '\n' || text_[at_] == '\r';
      if (text_[at_] != ' ' && text_[at_] != '\t' && !(ends && lines)) return;
      line_ += text_[at_] == '\n';
    }
  }

  std::string name() {
    const size_t begin = at_;
    while (is_name(peek())) ++at_;
    if (at_ == begin) expected("the name of a rule");
    if (at_ - begin > kMaxNameBytes) {
      fail(format("expected names of at most %zu bytes, found %zu", kMaxNameBytes, at_ - begin));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  int rule_of(const std::string& name) {
    const auto [at, fresh] = named_.try_emplace(name, 0);
    if (fresh) {
      at->second = rules_.declare(name);
      first_named_[at->second] = line_;
    }
    return at->second;
  }

  void read_rule() {
    const std::string name = this->name();
    skip(false);
    if (text_.substr(at_, 3) != "::=") expected("::= behind \"" + name + "\"");
    at_ += 3;
    skip(true);
    const int rule = rule_of(name);
    if (rules_.defined(rule)) fail("expected each rule once, found \"" + name + "\" twice");
    rules_.define(rule, alternatives(0));
    if (at_ < text_.size() && !take('\r') && peek() != '\n') {
      expected("a literal, a class, a rule, a group, | or the end of the rule");
    }
  }

  Id alternatives(int depth) {
    if (depth > kMaxDepth) fail(format("expected groups %d deep at most", kMaxDepth));
    std::vector<Id> all = {sequence(depth)};
    while (take('|')) {
      skip(true);
      all.push_back(sequence(depth));
    }
    return rules_.choice(std::move(all));
  }

  Id sequence(int depth) {
    std::vector<Id> all;
    for (;;) {
      const std::optional<Id> one = part(depth);
      if (!one) break;
      skip(depth > 0);
      all.push_back(repeated(*one, depth));
    }
    return all.empty() ? rules_.empty() : rules_.sequence(std::move(all));
  }

  std::optional<Id> part(int depth) {
    const char c = peek();
    if (c == '"') return literal();
    if (c == '[') return characters();
    if (c == '.') {
      ++at_;
      return rules_.characters({{0, kLastCode}});
    }
    if (c == '(') {
      ++at_;
      skip(true);
      const Id group = alternatives(depth + 1);
      if (!take(')')) expected("a closing parenthesis");
      return group;
    }
    if (c == '<')
      fail("expected text, found a token by its number or name, which is not supported");
    if (!is_name(c)) return std::nullopt;
    return rules_.rule(rule_of(name()));
  }

  Id literal() {
    ++at_;
    std::string bytes;
    while (peek() != '"') bytes += to_utf8(character("'\"' at the end of the literal"));
    ++at_;
    return rules_.literal(bytes);
  }

  Id characters() {
    ++at_;
    const bool without = take('^');
    std::vector<CodeRange> ranges;
    while (peek() != ']') {
      const char32_t first = character("] at the end of the class");
      char32_t last = first;
      if (peek() == '-' && text_.substr(at_ + 1, 1) != "]") {
        ++at_;
        last = character("the end of the range");
      }
      if (last < first) {
        fail(format("expected a range that ascends, found U+%04X-U+%04X",
                    static_cast<unsigned>(first), static_cast<unsigned>(last)));
      }
      ranges.push_back({first, last});
    }
    ++at_;
    return rules_.characters(without ? all_but(std::move(ranges)) : std::move(ranges));
  }

  // One character of a literal or a class, escapes resolved.
  char32_t character(const char* otherwise) {
    if (at_ >= text_.size() || peek() == '\n') expected(otherwise);
    const size_t begin = at_;
    const Utf8Head head = utf8_head(text_.substr(at_));
    if (head.kind != Utf8Head::kWhole) expected("UTF-8");
    at_ += static_cast<size_t>(head.length);
    if (head.code != '\\') return head.code;
    const char c = peek();
    if (at_ < text_.size()) ++at_;
    switch (c) {
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        at_ = begin;
        expected("one of the escapes \\\\ \\\" \\[ \\] \\- \\^ \\n \\r \\t \\x \\u \\U");
    }
  }

  char32_t hex(int digits) {
    uint64_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int value = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (value < 0) expected(format("%d hexadecimal digits", digits));
      code = code * 16 + static_cast<uint64_t>(value);
    }
    if (code > kLastCode || (code >= 0xd800 && code <= 0xdfff)) {
      fail(format("expected a character up to U+10FFFF that is no surrogate, found U+%04llX",
                  static_cast<unsigned long long>(code)));
    }
    return static_cast<char32_t>(code);
  }

  Id repeated(Id part, int depth) {
    for (;;) {
      if (take('*')) {
        part = rules_.repeat(part, 0, GrammarRules::kUnbounded);
      } else if (take('+')) {
        part = rules_.repeat(part, 1, GrammarRules::kUnbounded);
      } else if (take('?')) {
        part = rules_.optional(part);
      } else if (take('{')) {
        part = counted(part);
      } else {
        return part;
      }
      skip(depth > 0);
    }
  }

  Id counted(Id part) {
    skip(false);
    const int least = number();
    int most = least;
    skip(false);
    if (take(',')) {
      skip(false);
      most = peek() == '}' ? GrammarRules::kUnbounded : number();
      skip(false);
    }
    if (!take('}')) expected("}");
    if (most != GrammarRules::kUnbounded && most < least) {
      fail(format("expected {least,most}, found {%d,%d}", least, most));
    }
    return rules_.repeat(part, least, most);
  }

  int number() {
    int value = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kMaxRepeats) {
        fail(format("expected at most %d repetitions, found more", kMaxRepeats));
      }
    }
    if (at_ == begin) expected("a number of repetitions");
    return value;
  }

  std::string_view text_;
  GrammarRules& rules_;
  size_t at_ = 0;
  int line_ = 1;
  std::map<std::string, int> named_;
  std::map<int, int> first_named_;  // [rule] line
};

}  // namespace

int read_gbnf(std::string_view text, GrammarRules& rules) {
  return Reader(text, rules).read();
}

}  // namespace specbound
