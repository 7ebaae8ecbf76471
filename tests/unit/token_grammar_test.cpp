// Which tokens may follow a reply that a grammar holds: masks against a second way to find them,
// control and end tokens, what is forced, and what the sampler makes of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "decode/sampler.h"
#include "expect_error.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_grammar.h"
#include "piece_tokenizer.h"
#include "sanitized.h"
#include "token_distribution.h"

namespace token_grammar_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Piece = PieceTokenizer::Piece;
using Tokens = std::vector<int32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Bytes, 2000 random pieces of the letters that the grammars below speak of, and what has no text.
std::vector<Piece> many_pieces() {
  std::mt19937 rng(3);
  std::vector<Piece> more = {{"</s>", true, true}, {"<|end|>", true, true}, {"<x>", true}, {""}};
  std::set<std::string> known;
  const std::string letters = "ab01\"\\{}[]:, \n\xc3\xa9\xf0\x9f\x98\x80u";
  while (more.size() < 2000) {
    std::string text;
    for (size_t n = 2 + rng() % 6; n > 0; --n) text += letters[rng() % letters.size()];
    if (known.insert(text).second) more.push_back({text});
  }
  // About as long as what two trees of tokens and the states of bounded texts are told apart by.
  for (size_t n = 14; n <= 20; ++n) {
    for (const char* shape : {"a", "ab0", "\"a", "a:\\"}) {
      std::string text;
      while (text.size() < n) text += shape;
      text.resize(n);
      more.push_back({text});
      more.push_back({text.substr(0, n - 1) + '"'});
    }
  }
  return byte_pieces(more);
}

struct Held {
  explicit Held(const std::string& gbnf, std::vector<Piece> pieces)
      : tokenizer(std::move(pieces)),
        grammar(Grammar::from_gbnf(gbnf)),
        tokens(grammar, trie_of(tokenizer)) {}

  PieceTokenizer tokenizer;
  Grammar::Shared grammar;
  TokenGrammar tokens;
};

// The same by feeding each token's bytes to a matcher that knows nothing.
std::set<int32_t> brute(const Held& held, const Tokens& reply) {
  std::string text;
  for (const int32_t token : reply) text += held.tokenizer.piece(token, false);
  std::set<int32_t> allowed;
  GrammarMatcher matcher(held.grammar->automaton());
  for (int32_t token = 0; token < held.tokenizer.vocab_size(); ++token) {
    const auto before = matcher.next(matcher.start(), text);
    if (held.tokenizer.is_end(token)) {
      if (matcher.accepts(before)) allowed.insert(token);
      continue;
    }
    const std::string piece = held.tokenizer.piece(token, false);
    if (piece.empty()) continue;
    if (matcher.next(before, piece) != GrammarMatcher::kDead) allowed.insert(token);
  }
  return allowed;
}

std::set<int32_t> masked(const Held& held, const Tokens& reply, TokenGrammar::Path& path) {
  const auto mask = held.tokens.mask(reply, path);
  REQUIRE(mask);
  std::set<int32_t> allowed;
  for (int32_t token = 0; token < held.tokenizer.vocab_size(); ++token) {
    if (mask->has(token)) allowed.insert(token);
    CHECK(mask->has(token) == held.tokens.allows(reply, token, path));
  }
  CHECK(mask->n() == static_cast<int>(allowed.size()));
  CHECK(mask->lowest() == (allowed.empty() ? -1 : *allowed.begin()));
  return allowed;
}

std::shared_ptr<const TokenGrammar> grammar_of(const std::string& gbnf,
                                               const PieceTokenizer& tokenizer) {
  return std::make_shared<const TokenGrammar>(Grammar::from_gbnf(gbnf), trie_of(tokenizer));
}

}  // namespace

TEST_CASE("masks: those of a matcher that is fed token by token, along random replies") {
  const char* const grammars[] = {
      "root ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\u])* \"\\\"\"",
      "root ::= \"\\\"\" [^\"\\\\]{2,9} \"\\\"\" \" \"",
      "root ::= v\nv ::= o | \"[\" (v (\",\" \" \"? v)*)? \"]\" | [01]{1,3} | \"\\\"\" [ab]* "
      "\"\\\"\"\n"
      "o ::= \"{\" (\"\\\"\" [ab]* \"\\\":\" v)? \"}\"",
      "root ::= t \",\" t\nt ::= \"\\\"\" c{0,40} \"\\\"\"\nc ::= [^\"\\\\] | \"\\\\\" [\"u]",
      "root ::= (\"[\" t \"]\" | t \"b\")+\nt ::= c{3,30} [01]\nc ::= [ab\u00e9]? [a:\\\\]",
      "root ::= \"ab\"{1,4} | \"a\" [b01]* | .{3}",
  };
  for (const char* gbnf : grammars) {
    CAPTURE(gbnf);
    const Held held(gbnf, many_pieces());
    std::mt19937 rng(11);
    TokenGrammar::Path path;
    for (int walk = 0; walk < (kSanitized ? 1 : 4); ++walk) {
      Tokens reply;
      for (int i = 0; i < 10; ++i) {
        const std::set<int32_t> allowed = masked(held, reply, path);
        CHECK((allowed == brute(held, reply)));
        std::vector<int32_t> open;
        for (const int32_t token : allowed) {
          if (!held.tokenizer.is_end(token)) open.push_back(token);
        }
        CHECK(held.tokens.complete(reply, path) == open.empty());
        if (open.empty()) break;
        reply.push_back(open[rng() % open.size()]);
      }
      // From a branch of before, and from nothing.
      if (reply.size() > 2)
        CHECK((masked(held, Tokens(reply.begin(), reply.begin() + 2), path) ==
               brute(held, Tokens(reply.begin(), reply.begin() + 2))));
    }
  }
}

TEST_CASE("masks: end tokens where the grammar may end, tokens without text nowhere") {
  const Held held("root ::= \"ab\"?",
                  byte_pieces({{"</s>", true, true}, {""}, {"<x>", true}, {"ab"}}));
  TokenGrammar::Path path;
  CHECK((masked(held, {}, path) == std::set<int32_t>{'a', 256, 259}));
  CHECK((masked(held, {'a'}, path) == std::set<int32_t>{'b'}));
  CHECK((masked(held, {'a', 'b'}, path) == std::set<int32_t>{256}));
  CHECK(held.tokens.complete(Tokens{259}, path));
  CHECK_FALSE(held.tokens.complete(Tokens{}, path));
  CHECK(held.tokens.mask(Tokens{'b'}, path) == nullptr);
  CHECK_FALSE(held.tokens.allows(Tokens{'b'}, 'b', path));
  CHECK_FALSE(held.tokens.allows(Tokens{}, -1, path));
  CHECK_FALSE(held.tokens.allows(Tokens{}, 9999, path));
}

TEST_CASE("control tokens: where a literal of a choice spells them, nowhere else") {
  const PieceTokenizer tokenizer(
      byte_pieces({{"</s>", true, true}, {"<call>", true}, {"</call>", true}, {"<c"}}));
  using Kind = GrammarPart::Kind;
  const Grammar::Shared grammar = Grammar::choice_of(
      {{{Kind::kLiteral, "<call>\n"},
        {Kind::kSchema, R"({"type": "object", "properties": {"a": {"type": "string"}},
                            "required": ["a"]})"},
        {Kind::kLiteral, "</call>"}},
       {{Kind::kLiteral, "none"}}});
  const TokenGrammar held(grammar, trie_of(tokenizer));
  TokenGrammar::Path path;
  CHECK(held.allows(Tokens{}, 257, path));
  CHECK(held.allows(Tokens{}, '<', path));
  CHECK(held.allows(Tokens{}, 'n', path));
  CHECK_FALSE(held.allows(Tokens{}, 258, path));
  CHECK(held.mask(Tokens{}, path)->has(257));
  Tokens reply = {257, '\n'};
  for (const char c : std::string("{\"a\":\"")) reply.push_back(static_cast<uint8_t>(c));
  CHECK_FALSE(held.allows(reply, 257, path));  // in a text
  CHECK(held.allows(reply, '<', path));
  CHECK_FALSE(held.mask(reply, path)->has(258));
  reply.insert(reply.end(), {'"', '}'});
  CHECK(held.allows(reply, 258, path));
  reply.push_back(258);
  CHECK(held.complete(reply, path));
}

TEST_CASE("control tokens: none stands for plain text of a choice") {
  using Part = GrammarPart;
  const PieceTokenizer tokenizer(byte_pieces({{"</s>", true, true}, {"<x>", true}}));
  for (const std::vector<std::string>& shown : {std::vector<std::string>(), {"<x>"}}) {
    const TokenGrammar held(Grammar::choice_of({{Part::plain("<x>"), Part::literal("<x>")}}, shown),
                            trie_of(tokenizer));
    TokenGrammar::Path path;
    CHECK_FALSE(held.allows(Tokens{}, 257, path));
    CHECK(held.mask(Tokens{'<', 'x'}, path)->n() == 1);
    CHECK(held.allows(Tokens{'<', 'x', '>'}, 257, path));
  }
}

TEST_CASE("text up to a mark: any bytes and control tokens, and the mark where it first stands") {
  using Part = GrammarPart;
  const PieceTokenizer tokenizer(
      byte_pieces({{"</s>", true, true}, {"<call>", true}, {"<other>", true}, {"x<call>{"}}));
  const TokenGrammar held(
      Grammar::choice_of({{Part::without("<call>")}, {Part::until("<call>"), Part::literal("{")}},
                         {"<call>"}),
      trie_of(tokenizer));
  TokenGrammar::Path path;
  const auto free = held.mask(Tokens{}, path);
  CHECK(free->n() == 256 + 4);  // all that there are
  CHECK(held.mask(Tokens{258, 0xff, '<', 'c'}, path)->n() == 256 + 4);
  for (const Tokens& called : {Tokens{'a', 257}, Tokens{258, '<', 'c', 'a', 'l', 'l', '>'}}) {
    const auto mask = held.mask(called, path);
    CHECK(mask->n() == 1);
    CHECK(mask->has('{'));
  }
  CHECK(held.complete(Tokens{259}, path));
  CHECK_FALSE(held.allows(Tokens{'<', 'c', 'a', 'l', 'l', '>'}, 256, path));
  // The same as looking for them: some begin with the end of others, or have others inside.
  using Texts = std::vector<std::string>;
  for (const Texts& marks : {Texts{"a"}, Texts{"ab"}, Texts{"aab"}, Texts{"abab"}, Texts{"aabaa"},
                             Texts{"aab", "bba"}, Texts{"ab", "babb"}, Texts{"abba", "bb"},
                             Texts{"ab", "abab"}, Texts{"bab", "abaab", "aaa"}}) {
    CAPTURE(marks[0]);
    for (const bool until : {false, true}) {
      const Grammar::Shared grammar =
          Grammar::choice_of({{until ? Part::until_any(marks) : Part::without_any(marks)}});
      GrammarMatcher matcher(grammar->automaton());
      for (unsigned bits = 0; bits < 1u << 11; ++bits) {
        std::string text;
        for (unsigned rest = bits | 1u << 10; rest > 1; rest >>= 1) text += rest & 1 ? 'a' : 'b';
        size_t end = text.npos;  // of the first that is whole
        for (const std::string& mark : marks) {
          const size_t at = text.find(mark);
          if (at != text.npos) end = std::min(end, at + mark.size());
        }
        const bool fits = until ? end == text.size() : end == text.npos;
        CHECK(matcher.accepts(matcher.next(matcher.start(), text)) == fits);
      }
    }
  }
  CHECK(Grammar::choice_of({{Part::until_any({"a", "b"})}})->source() !=
        Grammar::choice_of({{Part::until_any({"a"})}})->source());
}

TEST_CASE("text up to a mark: a control token that is not shown is no text of it") {
  using Part = GrammarPart;
  const PieceTokenizer tokenizer(
      byte_pieces({{"</s>", true, true}, {"<call>", true}, {"<hidden>", true}, {"<ca"}, {"ll>"}}));
  const std::vector<std::vector<Part>> parts = {
      {Part::without("<call>")}, {Part::until("<call>"), Part::literal("{"), Part::plain("}")}};
  const TokenGrammar held(Grammar::choice_of(parts, {"<call>"}), trie_of(tokenizer));
  TokenGrammar::Path path;
  // Wherever it stands in front of the mark or in it, the mark is the same.
  for (const Tokens& called :
       {Tokens{259, 258, 260}, Tokens{258, 259, 258, 258, 'l', 'l', 258, '>'}, Tokens{258, 257}}) {
    const auto mask = held.mask(called, path);
    REQUIRE(mask);
    CHECK(mask->n() == 1);
    CHECK(mask->has('{'));
    CHECK_FALSE(held.allows(called, 258, path));
  }
  CHECK(held.allows(Tokens{259, 258}, 258, path));
  // One that is shown is what it spells.
  const TokenGrammar shown(Grammar::choice_of(parts, {"<call>", "<hidden>"}), trie_of(tokenizer));
  TokenGrammar::Path other;
  CHECK(shown.allows(Tokens{259, 258, 260}, 'x', other));
  // A mark that is not shown is none.
  const TokenGrammar bare(Grammar::choice_of(parts), trie_of(tokenizer));
  TokenGrammar::Path third;
  CHECK(bare.allows(Tokens{257}, 'x', third));
  CHECK(Grammar::choice_of(parts)->source() != Grammar::choice_of(parts, {"<call>"})->source());
}

TEST_CASE("a character as it likes: a control token that is not shown may come in front of it") {
  using Part = GrammarPart;
  const PieceTokenizer tokenizer(
      byte_pieces({{"</s>", true, true}, {"<hidden>", true}, {"<shown>", true}}));
  const std::vector<std::vector<Part>> parts = {
      {Part::literal("x"), Part::none_of("{"), Part::literal("y")}};
  const TokenGrammar held(Grammar::choice_of(parts, {"<shown>"}), trie_of(tokenizer));
  TokenGrammar::Path path;
  for (const Tokens& reply : {Tokens{}, Tokens{'x'}, Tokens{'x', 257}, Tokens{'x', 257, 'a'}}) {
    const auto mask = held.mask(reply, path);
    REQUIRE(mask);
    for (int32_t token = 0; token < 259; ++token) {
      CAPTURE(token);
      CHECK(mask->has(token) == held.allows(reply, token, path));
    }
  }
  CHECK(held.allows(Tokens{'x'}, 257, path));
  CHECK_FALSE(held.allows(Tokens{'x'}, 258, path));
}

TEST_CASE("forced: the only token, the longest of the only text") {
  const Held held(
      "root ::= \"name\" [ab] \"\xc3\xa9\" ",
      byte_pieces({{"</s>", true, true}, {"nam"}, {"na"}, {"name"}, {"ax"}, {"namea"}}));
  TokenGrammar::Path path;
  using Kind = TokenGrammar::Forced::Kind;
  const auto forced = [&](const Tokens& reply) { return held.tokens.forced(reply, path); };
  CHECK(forced({}).kind == Kind::kEdge);  // "namea" would do as well
  CHECK(forced({}).token == 259);
  CHECK(forced({257}).kind == Kind::kSure);
  CHECK(forced({257}).token == 'e');
  CHECK(forced({259}).kind == Kind::kNone);
  CHECK(forced({259, 'b'}).kind == Kind::kSure);
  CHECK(forced({259, 'b'}).token == 0xc3);
  CHECK(forced({'x'}).kind == Kind::kNone);
  const Held inside("root ::= \"namer\"", byte_pieces({{"name"}, {"na"}}));
  TokenGrammar::Path other;
  CHECK(inside.tokens.forced(Tokens{}, other).kind == Kind::kInside);
}

TEST_CASE("the sampler: only what may follow, by any rule of drawing") {
  const PieceTokenizer tokenizer({{"a"}, {"b"}, {"ab"}, {"c"}, {"", true, true}});
  SamplingParams p = open_params(0);
  p.grammar = grammar_of("root ::= \"ab\" \"c\"?", tokenizer);
  Sampler sampler(p);
  CHECK(sampler.changes_logits());
  const std::vector<float> logits = {0, 9, 1, 8, 7};
  CHECK(sampler.sample(logits, {}, {}) == 2);
  CHECK(sampler.sample(logits, Tokens{0}, {}) == 1);
  CHECK(sampler.sample(logits, Tokens{2}, {}) == 3);
  CHECK(sampler.sample(logits, Tokens{2, 3}, {}) == 4);
  // The prompt does not count; a history within it neither.
  sampler.begin_reply(2);
  CHECK(sampler.sample(logits, Tokens{3, 3}, {}) == 2);
  CHECK(sampler.sample(logits, Tokens{3, 3, 0}, {}) == 1);
  CHECK(sampler.sample(logits, Tokens{3}, {}) == 2);
  sampler.begin_reply(0);
  // Nothing else has a logit above -inf.
  CHECK(sampler.sample(std::vector<float>{-kInf, 9, kNan, 8, 7}, {}, {}) == 0);
  CHECK(sampler.sample(std::vector<float>{kNan, 9, -kInf, 8, 7}, {}, {}) == 0);
  CHECK(sampler.sample(std::vector<float>{-kInf, 9, -3, 8, 7}, {}, {}) == 2);
  // More logits than tokens: nothing may follow that has no text.
  CHECK(sampler.sample(std::vector<float>{0, 9, 1, 8, 7, 99}, {}, {}) == 2);
  // A shortlist.
  const std::vector<int32_t> ids = {3, 0, 1};
  CHECK(sampler.sample(std::vector<float>{9, -5, 8}, {}, {}, ids) == 0);
  CHECK(sampler.ends(Tokens{2, 3}));
  CHECK(sampler.ends(Tokens{2, 4}));
  CHECK_FALSE(sampler.ends(Tokens{2}));
  CHECK_FALSE(sampler.ends(Tokens{}));
  CHECK(sampler.may_follow({}, 0));
  CHECK_FALSE(sampler.may_follow({}, 3));
  // Bias and penalties come behind it.
  p.logit_bias = {{1, 100}, {0, 50}};
  CHECK(Sampler(p).sample(logits, {}, {}) == 0);
  for (const float temperature : {0.3f, 1.0f, 5.0f}) {
    for (const int top_k : {0, 1, 3}) {
      p.temperature = temperature;
      p.top_k = top_k;
      p.logit_bias.clear();
      Sampler drawn(p);
      TokenDistribution all;
      drawn.distribution(logits, {}, all);
      for (const int32_t id : all.ids) CHECK((id == 0 || id == 2));
      CHECK(all.ids.size() == (top_k == 1 ? 1u : 2u));
      for (uint32_t place = 0; place < 200; ++place) {
        const int32_t id = drawn.sample(logits, {}, {1, 0, place});
        CHECK((id == 0 || id == 2));
      }
    }
  }
}

TEST_CASE("a vocabulary without the only byte: an error that names it") {
  const PieceTokenizer tokenizer({{"a"}, {"c"}});
  SamplingParams p = open_params(0);
  p.grammar = grammar_of("root ::= \"ab\"", tokenizer);
  Sampler sampler(p);
  const std::vector<float> logits = {1, 2};
  CHECK(sampler.sample(logits, {}, {}) == 0);
  const int32_t token = sampler.sample(logits, Tokens{0}, {});
  check_mentions(
      expect_error(ErrorCode::kUnsupported, [&] { sampler.check_target(Tokens{0}, token); }),
      {"0x62", "vocabulary"});
}

TEST_CASE("where a grammar is too ambiguous only a target is refused, whatever was asked before") {
  const char* const source =
      "root ::= (x | y | z)*\nx ::= \"a\" root \"b\"\ny ::= \"a\" root \"c\"\n"
      "z ::= \"a\" root \"d\"";
  const PieceTokenizer tokenizer(byte_pieces({{"aaaa"}}));
  SamplingParams p = open_params(0);
  p.grammar = grammar_of(source, tokenizer);
  Sampler ahead(p);  // has looked at all that comes, as drafts do
  Tokens reply;
  size_t first = 0;  // length of the reply behind which one more is too much
  for (; reply.size() < 64; reply.push_back('a')) {
    const bool may = ahead.may_follow(reply, 'a');
    if (!may && first == 0) first = reply.size();
    CHECK(may == (first == 0));
    ahead.forced(reply);
    ahead.sample(std::vector<float>(257, 0.0f), reply, {});
  }
  REQUIRE(first > 2);
  p.grammar = grammar_of(source, tokenizer);
  Sampler plain(p);
  for (Sampler* sampler : {&ahead, &plain}) {
    const Tokens before(first - 1, 'a'), last(first, 'a');
    sampler->check_target(before, 'a');
    check_mentions(expect_error(ErrorCode::kUnsupported, [&] { sampler->check_target(last, 'a'); }),
                   {"ways", "ambiguous", std::to_string(first)});
  }
}

TEST_CASE("a mask that would take too long is an error of the target alone") {
  std::vector<Piece> words;  // each in a state of its own
  for (uint32_t bits = 0; bits < 2048; ++bits) {
    std::string word;
    for (int i = 0; i < 11; ++i) word += (bits >> i & 1) ? 'a' : 'b';
    words.push_back({word});
  }
  const PieceTokenizer tokenizer(byte_pieces(words));
  SamplingParams p = open_params(0);
  p.grammar = grammar_of("root ::= ([ab]?){300} \"c\" | [ab]* \"a\" [ab]{24} \"c\"", tokenizer);
  Sampler sampler(p);
  const std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()), 0.0f);
  for (int i = 0; i < 2; ++i) {  // known or not
    CHECK(sampler.may_follow({}, 'a'));
    CHECK(sampler.forced({}).kind == TokenGrammar::Forced::Kind::kNone);
    sampler.sample(logits, {}, {});
    check_mentions(expect_error(ErrorCode::kUnsupported, [&] { sampler.check_target({}, 'a'); }),
                   {"steps", "ambiguous"});
  }
}

TEST_CASE("what is kept of a grammar is bounded, and its loss changes nothing") {
  const Held held("root ::= x{0,90000}\nx ::= [a-y]", many_pieces());
  TokenGrammar::Path path;
  Tokens reply;
  const std::set<int32_t> first = masked(held, {'a'}, path);
  for (int i = 0; i < 42'000; ++i) reply.push_back('a');
  CHECK(held.tokens.allows(reply, 'a', path));
  CHECK_FALSE(held.tokens.allows(reply, 'z', path));  // forgets, and reads the reply again
  CHECK((masked(held, {'a'}, path) == first));
}

}  // namespace token_grammar_test
