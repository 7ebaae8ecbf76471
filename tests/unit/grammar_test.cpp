// Grammars in GBNF: what texts they take, byte by byte, and what is refused by line or name.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "expect_error.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace grammar_test {

using namespace specbound;
using namespace specbound::test;

namespace {

bool takes(std::string_view source, std::string_view text) {
  const Grammar::Shared grammar = Grammar::from_gbnf(source);
  GrammarMatcher matcher(grammar->automaton());
  return matcher.accepts(matcher.next(matcher.start(), text));
}

bool begins(std::string_view source, std::string_view text) {
  const Grammar::Shared grammar = Grammar::from_gbnf(source);
  GrammarMatcher matcher(grammar->automaton());
  return matcher.next(matcher.start(), text) != GrammarMatcher::kDead;
}

struct Case {
  std::string_view source;
  std::vector<std::string_view> taken, not_taken;
};

void check_refused(std::string_view source, ErrorCode code,
                   std::initializer_list<std::string_view> parts) {
  INFO("source: ", std::string(source.substr(0, 80)));
  check_mentions(expect_error(code, [&] { Grammar::from_gbnf(source); }), parts);
}

}  // namespace

TEST_CASE("GBNF: literals, classes, groups, alternatives, repetitions") {
  const Case cases[] = {
      {R"(root ::= "ab")", {"ab"}, {"", "a", "abc", "b"}},
      {R"(root ::= "")", {""}, {"a"}},
      {"root ::=\n  \"a\" # comment\n# another\n", {"a"}, {""}},
      {"root ::= \"a\" |\n \"b\"\r\n", {"a", "b"}, {"ab"}},
      {"root ::= (\n \"a\"\n |\n \"b\" ) \"c\"", {"ac", "bc"}, {"a", "c"}},
      {R"(root ::= [a-c0-])", {"a", "b", "c", "0", "-"}, {"d", "1"}},
      {R"(root ::= [^a-c\n])", {"d", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"a", "\n", "\xc3", "\xff"}},
      {R"(root ::= [\x41\u00e9\U0001F600\]\\\[\-\^])",
       {"A", "\xc3\xa9", "\xf0\x9f\x98\x80", "]", "\\", "[", "-", "^"},
       {"B", "\xc3\xa8"}},
      {R"(root ::= "\x41\u00e9\U0001F600\"\\\n\t\r")",
       {"A\xc3\xa9\xf0\x9f\x98\x80\"\\\n\t\r"},
       {"A"}},
      {R"(root ::= .)", {"a", "\n", "\xe2\x82\xac"}, {"", "ab", "\xed\xa0\x80", "\xc0\x80"}},
      {R"(root ::= "a"* "b")", {"b", "ab", "aaab"}, {"", "a", "ba"}},
      {R"(root ::= "a"+)", {"a", "aaa"}, {"", "b"}},
      {R"(root ::= "a"? "b")", {"b", "ab"}, {"aab"}},
      {R"(root ::= "a"{2})", {"aa"}, {"a", "aaa"}},
      {R"(root ::= "a"{2,})", {"aa", "aaaaa"}, {"a"}},
      {R"(root ::= "ab"{1,3})", {"ab", "abab", "ababab"}, {"", "abababab", "aba"}},
      {R"(root ::= "a"{0,2} "b")", {"b", "ab", "aab"}, {"aaab"}},
      {R"(root ::= "a"{0} "b")", {"b"}, {"ab"}},
      {R"(root ::= ("a" | "b" "c")* "d")", {"d", "abcad"}, {"bd", "acd"}},
      {R"(root ::= ("a"*)* "b")", {"b", "aab"}, {"a"}},
      {R"(root ::= ("a"?){3})", {"", "a", "aaa"}, {"aaaa"}},
      {R"(root ::= "a"+?)", {"", "a", "aa"}, {"b"}},
      {"root ::= list\nlist ::= item (\",\" list)?\nitem ::= [0-9]+ | \"[\" list \"]\"",
       {"1", "1,22", "[[1],2],3"},
       {"", "[1", "1,"}},
      {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aaabbb"}, {"aab", "abb"}},
      {"root ::= x_1-y \"b\"\nx_1-y ::= \"a\"", {"ab"}, {"b"}},
      // Two ways to read the same text, and one that leads nowhere.
      {"root ::= \"a\" \"b\" | \"ab\" | never\nnever ::= \"a\" never", {"ab"}, {"a", "aa"}},
      {"root ::= \"a\" [^\\x00-\\U0010FFFF] | \"b\"", {"b"}, {"a"}},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.source));
    for (const std::string_view text : c.taken) {
      CAPTURE(std::string(text));
      CHECK(takes(c.source, text));
      for (size_t n = 0; n < text.size(); ++n) CHECK(begins(c.source, text.substr(0, n)));
    }
    for (const std::string_view text : c.not_taken) {
      CAPTURE(std::string(text));
      CHECK_FALSE(takes(c.source, text));
    }
  }
}

TEST_CASE("GBNF: a byte order mark is none of the text, in front of it alone") {
  CHECK(takes("\xEF\xBB\xBFroot ::= \"a\"", "a"));
  check_refused("root ::= \"a\"\n\xEF\xBB\xBFx ::= \"b\"", ErrorCode::kUsage, {"line 2"});
}

TEST_CASE("GBNF: what cannot go on does not begin") {
  CHECK_FALSE(begins("root ::= \"a\" [^\\x00-\\U0010FFFF] | \"b\"", "a"));
  CHECK_FALSE(begins("root ::= \"ab\" | never\nnever ::= \"a\" \"c\" never", "ac"));
}

TEST_CASE("GBNF: all characters, one by one") {
  const Grammar::Shared grammar =
      Grammar::from_gbnf("root ::= [^\\x80-\\u07ff\\uffff-\\U0001ffff]");
  GrammarMatcher matcher(grammar->automaton());
  const auto start = matcher.start();
  const auto utf8 = [](char32_t c) {
    std::string out;
    if (c < 0x80) return std::string(1, static_cast<char>(c));
    if (c >= 0x10000) {
      out = {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63))};
    } else if (c >= 0x800) {
      out = {static_cast<char>(0xe0 | c >> 12)};
    } else {
      return std::string{static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    }
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    return out + static_cast<char>(0x80 | (c & 63));
  };
  int wrong = 0;
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    const bool inside = !(c >= 0x80 && c <= 0x7ff) && !(c >= 0xffff && c <= 0x1ffff) &&
                        !(c >= 0xd800 && c <= 0xdfff);
    wrong += matcher.accepts(matcher.next(start, utf8(c))) != inside;
  }
  CHECK(wrong == 0);
}

TEST_CASE("GBNF: states are numbers that any branch can go on from") {
  const Grammar::Shared grammar = Grammar::from_gbnf("root ::= (\"a\" | \"b\" [0-9]{0,3})*");
  GrammarMatcher matcher(grammar->automaton());
  const auto start = matcher.start();
  const auto b1 = matcher.next(start, "b1");
  CHECK(matcher.next(start, "aab1") == b1);
  CHECK(matcher.next(start, "ab2") == b1);
  CHECK(matcher.next(b1, "23") != matcher.next(b1, "2"));
  CHECK(matcher.next(b1, "2345") == GrammarMatcher::kDead);
  CHECK(matcher.next(GrammarMatcher::kDead, "a") == GrammarMatcher::kDead);
  CHECK(matcher.next(b1, "a") == matcher.next(start, "a"));
}

TEST_CASE("GBNF: what is wrong is named with its line") {
  using enum ErrorCode;
  check_refused("", kUsage, {"line 1", "\"root\""});
  check_refused("rooot ::= \"a\"", kUsage, {"\"root\""});
  check_refused("root ::= \"a\"\nroot ::= \"b\"", kUsage, {"line 2", "\"root\" twice"});
  check_refused("root ::= \"a\" x\ny ::= \"b\"", kUsage, {"line 1", "\"x\""});
  check_refused("root = \"a\"", kUsage, {"line 1", "::="});
  check_refused("root ::= \"a", kUsage, {"line 1", "end of the literal"});
  check_refused("root ::= [a", kUsage, {"line 1", "end of the class"});
  check_refused("root ::= [b-a]", kUsage, {"ascends", "U+0062-U+0061"});
  check_refused("root ::= (\"a\"", kUsage, {"parenthesis"});
  check_refused("root ::= \"a\")", kUsage, {"line 1", "\")\""});
  check_refused("root ::= \"\\q\"", kUsage, {"escapes", "\\q"});
  check_refused("root ::= \"\\", kUsage, {"escapes"});
  check_refused("root ::= \"\\x4\"", kUsage, {"hexadecimal"});
  check_refused("root ::= \"\\ud800\"", kUsage, {"surrogate"});
  check_refused("root ::= \"\\U00110000\"", kUsage, {"U+110000"});
  check_refused("root ::= \"\xff\"", kUsage, {"UTF-8"});
  check_refused("root ::= \"a\"{3,2}", kUsage, {"{3,2}"});
  check_refused("root ::= \"a\"{x}", kUsage, {"number of repetitions"});
  check_refused("root ::= \"a\"{2", kUsage, {"}"});
  check_refused("root ::= \"a\"{100001}", kUsage, {"100000"});
  check_refused("\n\nroot ::= <think>", kUsage, {"line 3", "not supported"});
  check_refused("root ::= \"a\" ~", kUsage, {"line 1", "~"});
}

TEST_CASE("GBNF: recursion to the left and rules without an end are refused by name") {
  using enum ErrorCode;
  check_refused("root ::= root \"a\" | \"b\"", kUsage, {"\"root\"", "left recursion"});
  check_refused("root ::= x\nx ::= y \"a\"\ny ::= \"b\"? x | \"c\"", kUsage, {"left recursion"});
  check_refused("root ::= \"a\"* root", kUsage, {"\"root\"", "left recursion"});
  check_refused("root ::= (\"\" | x)+ \"a\"\nx ::= root", kUsage, {"left recursion"});
  check_refused("root ::= \"a\" root", kUsage, {"\"root\"", "endless"});
  check_refused("root ::= [^\\x00-\\U0010FFFF]", kUsage, {"\"root\"", "endless"});
}

TEST_CASE("GBNF: hostile grammars are refused or bounded") {
  using enum ErrorCode;
  check_refused(std::string(Grammar::kMaxSource + 1, ' '), kLimit, {"1048576"});
  std::string deep = "root ::= ";
  for (int i = 0; i < 5000; ++i) deep += '(';
  check_refused(deep, kUsage, {"100 deep"});
  // Repetitions of repetitions cost their sum, not their product.
  std::string product = "\"a\"";
  for (int i = 0; i < 50; ++i) product = "(" + product + "){1000}";
  CHECK(begins("root ::= " + product, "aaa"));
  check_refused("root ::= " + product + "{100000} \"b\"{100000} \"c\"{100000}", kLimit, {"steps"});
  std::string long_one = "root ::= ";
  while (long_one.size() < 1'000'000) long_one += "\"a\"";
  check_refused(long_one, kLimit, {"more"});
  std::string many = "root ::= r0\n";
  for (int i = 0; i < 30'000; ++i) many += format("r%d ::= \"a\" r%d\n", i, i + 1);
  many += "r30000 ::= \"b\"";
  CHECK(begins(many, "aaaa"));
  // A chain of rules that begin with each other, as deep as it gets.
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 10'000; ++i) chain += format("r%d ::= r%d\n", i, i + 1);
  CHECK(takes(chain + "r10000 ::= \"b\"", "b"));
  for (int i = 10'000; i < 30'000; ++i) chain += format("r%d ::= r%d\n", i, i + 1);
  CHECK(begins(chain + "r30000 ::= \"b\"", "b"));
  check_refused(chain + "r30000 ::= r0 | \"b\"", kUsage, {"left recursion"});
}

TEST_CASE("GBNF: what closes over too many steps is one state, found at once") {
  const auto ways = [](const std::string& source) {
    const Grammar::Shared grammar = Grammar::from_gbnf(source);
    GrammarMatcher matcher(grammar->automaton());
    const auto start = matcher.start();
    CHECK(matcher.next(start, 'a') == start);
    return start;
  };
  CHECK(ways("root ::= (((\"a\"? \"b\"?){0,1000}){0,1000}){0,1000}") == GrammarMatcher::kTooMany);
  CHECK(ways("root ::= (\"a\"? \"b\"?){1000}") == GrammarMatcher::kTooMany);
  // Many calls that lead to no byte.
  std::string empty = "root ::= r0* \"a\"\n";
  for (int i = 0; i < 30'000; ++i) empty += format("r%d ::= r%d | r%d\n", i, i + 1, i + 1);
  const Grammar::Shared grammar = Grammar::from_gbnf(empty + "r30000 ::= \"\"");
  GrammarMatcher matcher(grammar->automaton());
  CHECK(matcher.start() == GrammarMatcher::kTooMany);
}

TEST_CASE("GBNF: too many ways to read one text are one state, not an endless search") {
  // Each a may begin any number of lists that are not closed yet.
  const Grammar::Shared grammar = Grammar::from_gbnf(
      "root ::= (x | y | z)*\nx ::= \"a\" root \"b\"\ny ::= \"a\" root \"c\"\nz ::= \"a\" root "
      "\"d\"");
  GrammarMatcher matcher(grammar->automaton());
  const auto many = matcher.next(matcher.start(), std::string(64, 'a'));
  CHECK(many == GrammarMatcher::kTooMany);
  CHECK(matcher.next(many, 'x') == GrammarMatcher::kTooMany);
  CHECK_FALSE(matcher.accepts(many));
  CHECK_FALSE(matcher.is_last(many));
  CHECK(matcher.only_byte(many) == -1);
}

TEST_CASE("GBNF: what a matcher keeps is bounded") {
  const Grammar::Shared grammar = Grammar::from_gbnf("root ::= x{0,90000}\nx ::= \"a\" | \"b\"");
  GrammarMatcher matcher(grammar->automaton());
  auto state = matcher.start();
  for (int i = 0; i < 80'000; ++i) {
    if (matcher.trim()) state = matcher.start();
    state = matcher.next(state, static_cast<uint8_t>('a'));
    REQUIRE(state != GrammarMatcher::kDead);
  }
  CHECK(state < 60'000);
}

}  // namespace grammar_test
