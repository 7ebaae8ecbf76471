// Cuts a Jinja template into text and the tokens inside its tags, with white space cut as the
// settings of chat templates have it: trim_blocks (a line end behind {% %} and {# #} goes) and
// lstrip_blocks (blanks before them go, from the line's beginning), and - and + where they stand.
// Reference: jinja2's lexer.py.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "jinja/parser.h"
#include "jinja/text.h"
#include "jinja/value.h"
#include "text/utf8.h"

namespace specbound::jinja {

namespace {

constexpr std::string_view kBlanks = " \t\n\v\f\r";

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Line ends as Jinja reads them: \r\n and \r are \n, and one at the very end goes.
std::string normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

uint32_t hex_digits(std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) throw NotUnderstood();
  return value;
}

// A string literal's contents: Python's escapes.
std::string unescaped(std::string_view text) {
  constexpr std::string_view kEscapes = "ntrabfv\\'\"", kMeant = "\n\t\r\a\b\f\v\\'\"";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (const size_t known = kEscapes.find(c); known != kEscapes.npos) {
      out += kMeant[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      if (text.size() - i - 1 < n) throw NotUnderstood();
      const std::string character = to_utf8(hex_digits(text.substr(i + 1, n)));
      if (character.empty()) throw NotUnderstood();
      out += character;
      i += n;
    } else if (c == 'N' || is_digit(c)) {
      throw NotUnderstood();  // named and octal characters
    } else if (c != '\n') {   // a line end is skipped, any other character stands for both
      out += '\\';
      out += c;
    }
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t open = find_tag(at_);
      if (open == source_.size()) {
        put_text(at_, open);
        break;
      }
      const char kind = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      put_text(at_, text_end(open, kind, sign));
      at_ = open + 2 + (sign == '-' || sign == '+');
      if (kind == '#') {
        const size_t close = source_.find("#}", at_);
        if (close == source_.npos) throw NotUnderstood();
        const char last = close > at_ ? source_[close - 1] : '\0';
        at_ = close + 2;
        close_tag(last, true);
      } else if (kind == '%' && is_block("raw", at_)) {
        raw();
      } else {
        tag(kind == '%');
      }
    }
    tokens_.push_back({Token::kEnd, ""});
    return std::move(tokens_);
  }

 private:
  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != source_.npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() &&
          std::string_view("{%#").find(source_[i + 1]) != std::string_view::npos)
        return i;
    }
    return source_.size();
  }

  // Where the text before the tag at `open` ends.
  size_t text_end(size_t open, char kind, char sign) const {
    const std::string_view text = std::string_view(source_).substr(at_, open - at_);
    if (sign == '-') return at_ + strip(text, Side::kRight).size();
    if (kind == '{' || sign == '+') return open;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == text.npos ? 0 : newline + 1;
    if (line == 0 && !line_starts_) return open;
    return strip(text.substr(line), Side::kLeft).empty() ? at_ + line : open;
  }

  void put_text(size_t from, size_t to) {
    if (to > from) tokens_.push_back({Token::kText, source_.substr(from, to - from)});
  }

  // Behind a tag's end, whose last sign is `sign`: which white space goes.
  void close_tag(char sign, bool trims) {
    const size_t from = at_;
    if (sign == '-') {
      const std::string_view rest = std::string_view(source_).substr(at_);
      at_ = source_.size() - strip(rest, Side::kLeft).size();
    } else if (trims && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    line_starts_ = at_ > from && source_[at_ - 1] == '\n';
  }

  // What stands at `at` is `word` and the end of a block. The place behind it goes to *behind.
  bool is_block(std::string_view word, size_t at, size_t* behind = nullptr,
                char* sign = nullptr) const {
    const auto skip = [&] {
      at = std::min(source_.find_first_not_of(kBlanks, at), source_.size());
    };
    skip();
    if (source_.compare(at, word.size(), word) != 0) return false;
    at += word.size();
    skip();
    const bool signed_end = at < source_.size() && (source_[at] == '-' || source_[at] == '+');
    if (sign) *sign = signed_end ? source_[at] : '\0';
    at += signed_end;
    if (source_.compare(at, 2, "%}") != 0) return false;
    if (behind) *behind = at + 2;
    return true;
  }

  // {% raw %} text {% endraw %}
  void raw() {
    char sign = 0;
    is_block("raw", at_, &at_, &sign);
    if (sign == '+') throw NotUnderstood();
    close_tag(sign, false);
    for (size_t open = source_.find("{%", at_); open != source_.npos;
         open = source_.find("{%", open + 2)) {
      const char opening = open + 2 < source_.size() ? source_[open + 2] : '\0';
      size_t behind;
      if (!is_block("endraw", open + 2 + (opening == '-' || opening == '+'), &behind, &sign)) {
        continue;
      }
      put_text(at_, text_end(open, '%', opening));
      at_ = behind;
      close_tag(sign, true);
      return;
    }
    throw NotUnderstood();
  }

  void tag(bool block) {
    tokens_.push_back({block ? Token::kBeginBlock : Token::kBeginOutput, ""});
    const std::string_view close = block ? "%}" : "}}";
    std::string brackets;  // that are open
    for (;;) {
      at_ = source_.find_first_not_of(kBlanks, at_);
      if (at_ == source_.npos) throw NotUnderstood();
      if (brackets.empty()) {
        const char sign = source_[at_];
        const size_t signs = sign == '-' || (block && sign == '+');
        if (source_.compare(at_ + signs, 2, close) == 0) {
          at_ += signs + 2;
          tokens_.push_back({block ? Token::kEndBlock : Token::kEndOutput, ""});
          close_tag(signs ? sign : '\0', block);
          return;
        }
      }
      token(brackets);
    }
  }

  void token(std::string& brackets) {
    const char c = source_[at_];
    if (is_name_start(c)) {
      size_t end = at_;
      while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
      take(Token::kName, end);
    } else if (is_digit(c)) {
      number();
    } else if (c == '\'' || c == '"') {
      size_t end = at_ + 1;
      while (end < source_.size() && source_[end] != c) end += source_[end] == '\\' ? 2 : 1;
      if (end >= source_.size()) throw NotUnderstood();
      tokens_.push_back({Token::kString, unescaped(source_.substr(at_ + 1, end - at_ - 1))});
      at_ = end + 1;
    } else {
      static constexpr std::array<std::string_view, 26> kOperators = {
          "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
          "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
      const auto* found =
          std::find_if(kOperators.begin(), kOperators.end(),
                       [&](std::string_view o) { return source_.compare(at_, o.size(), o) == 0; });
      if (found == kOperators.end()) throw NotUnderstood();
      if (std::string_view("([{").find(c) != std::string_view::npos) brackets += c;
      if (const size_t kind = std::string_view(")]}").find(c); kind != std::string_view::npos) {
        if (brackets.empty() || brackets.back() != "([{"[kind]) throw NotUnderstood();
        brackets.pop_back();
      }
      take(Token::kOperator, at_ + found->size());
    }
  }

  void number() {
    const auto skip_digits = [&](size_t at) {
      while (at < source_.size() && is_digit(source_[at])) ++at;
      return at;
    };
    size_t end = skip_digits(at_);
    Token::Kind kind = Token::kInt;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = skip_digits(end + 1);
      kind = Token::kFloat;
    }
    if (end < source_.size() && is_name_start(source_[end])) throw NotUnderstood();  // 1e5, 0x1
    take(kind, end);
  }

  void take(Token::Kind kind, size_t end) {
    tokens_.push_back({kind, source_.substr(at_, end - at_)});
    at_ = end;
  }

  std::string source_;
  size_t at_ = 0;
  bool line_starts_ = true;  // text at at_ begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (!is_utf8(source)) throw NotUnderstood();
  return Lexer(normalized(source)).run();
}

}  // namespace specbound::jinja
