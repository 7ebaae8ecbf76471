#include "grammar/rules.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

constexpr CodeRange kSurrogates = {0xd800, 0xdfff};

}  // namespace

std::vector<CodeRange> normalized(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> whole;
  for (const CodeRange& range : ranges) {
    const CodeRange before = {range.first, std::min<char32_t>(range.last, kSurrogates.first - 1)};
    const CodeRange behind = {std::max<char32_t>(range.first, kSurrogates.last + 1),
                              std::min(range.last, kLastCode)};
    for (const CodeRange& part : {before, behind}) {
      if (part.first <= part.last) whole.push_back(part);
    }
  }
  std::ranges::sort(whole, {}, &CodeRange::first);
  std::vector<CodeRange> merged;
  for (const CodeRange& range : whole) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<CodeRange> all_but(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> rest;
  char32_t next = 0;
  for (const CodeRange& range : normalized(std::move(ranges))) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCode) rest.push_back({next, kLastCode});
  return normalized(std::move(rest));
}

GrammarRules::Id GrammarRules::add(Expression expression) {
  if (expressions_.size() >= kMaxExpressions) {
    throw Error(ErrorCode::kLimit,
                format("expected a grammar of at most %zu parts, found more", kMaxExpressions));
  }
  expressions_.push_back(std::move(expression));
  return static_cast<Id>(expressions_.size()) - 1;
}

GrammarRules::Id GrammarRules::literal(std::string_view bytes, bool control) {
  if (bytes.empty()) return empty();
  Expression e;
  e.kind = Kind::kLiteral;
  e.control = control;
  e.bytes = bytes;
  return add(std::move(e));
}

GrammarRules::Id GrammarRules::unlike(Kind kind, std::vector<std::string> marks) {
  SB_CHECK(kind == Kind::kWithout || !marks.empty());
  for (const std::string& mark : marks) SB_CHECK(!mark.empty());
  Expression e;
  e.kind = kind;
  e.marks = std::move(marks);
  return add(std::move(e));
}

GrammarRules::Id GrammarRules::characters(std::vector<CodeRange> ranges, bool free) {
  Expression e;
  e.kind = Kind::kCharacters;
  e.free = free;
  e.ranges = normalized(std::move(ranges));
  return add(std::move(e));
}

GrammarRules::Id GrammarRules::rule(int which) {
  Expression e;
  e.kind = Kind::kRule;
  e.a = which;
  return add(std::move(e));
}

GrammarRules::Id GrammarRules::sequence(std::vector<Id> parts) {
  if (parts.size() == 1) return parts[0];
  Expression e;
  e.kind = Kind::kSequence;
  e.parts = std::move(parts);
  return add(std::move(e));
}

GrammarRules::Id GrammarRules::choice(std::vector<Id> parts) {
  if (parts.size() == 1) return parts[0];
  Expression e;
  e.kind = Kind::kChoice;
  e.parts = std::move(parts);
  return add(std::move(e));
}

GrammarRules::Id GrammarRules::one_of(std::vector<std::string> texts) {
  SB_CHECK(!texts.empty());
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return one_of(texts, 0);
}

// Behind the first `at` bytes, which all of `texts` (ascending) begin with.
GrammarRules::Id GrammarRules::one_of(std::span<const std::string> texts, size_t at) {
  const std::string &first = texts.front(), &last = texts.back();
  const auto same = std::mismatch(first.begin() + static_cast<std::ptrdiff_t>(at), first.end(),
                                  last.begin() + static_cast<std::ptrdiff_t>(at), last.end());
  const auto end = static_cast<size_t>(same.first - first.begin());
  const Id begin = literal(std::string_view(first).substr(at, end - at));
  if (texts.size() == 1) return begin;
  std::vector<Id> all;
  if (first.size() == end) {
    all.push_back(empty());
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const char byte = texts.front()[end];
    const auto behind =
        std::ranges::find_if(texts, [&](const std::string& text) { return text[end] != byte; });
    const auto n = static_cast<size_t>(behind - texts.begin());
    all.push_back(one_of(texts.first(n), end));
    texts = texts.subspan(n);
  }
  return sequence({begin, choice(std::move(all))});
}

GrammarRules::Id GrammarRules::repeat(Id part, int least, int most) {
  SB_CHECK(least >= 0 && (most == kUnbounded || least <= most));
  if (least == 1 && most == 1) return part;
  Expression e;
  e.kind = Kind::kRepeat;
  e.a = least;
  e.b = most;
  e.parts = {part};
  return add(std::move(e));
}

int GrammarRules::declare(std::string name) {
  if (name.size() > kMaxName) name.resize(kMaxName);
  names_.push_back(std::move(name));
  bodies_.push_back(-1);
  return n_rules() - 1;
}

}  // namespace specbound
