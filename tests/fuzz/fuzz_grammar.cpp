// Any bytes as a grammar or a JSON schema. What is understood is walked along at random: no state
// is a dead end, a mask has what is forced, and what may follow. The first byte of an input says
// what it is: 0 GBNF, 1 a schema, 2 a schema behind a literal, 3 what stands before and behind a
// text.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_grammar.h"
#include "tests/unit/piece_tokenizer.h"

namespace {

using namespace specbound;

std::shared_ptr<const TokenTrie> trie() {
  static const auto made =
      test::trie_of(test::PieceTokenizer(test::byte_pieces({{"</s>", true, true},
                                                            {"<x>", true},
                                                            {"\":"},
                                                            {"{\""},
                                                            {"ab"},
                                                            {"aba"},
                                                            {"12"},
                                                            {"\",\""},
                                                            {"\\u00"},
                                                            {"\xc3\xa9"},
                                                            {"true"}})));
  return made;
}

Grammar::Shared read(uint8_t kind, std::string_view text) {
  using Kind = GrammarPart::Kind;
  if (kind == 0) return Grammar::from_gbnf(text);
  if (kind == 1) return Grammar::from_json_schema(text);
  if (kind == 3) {
    const std::string mark(text.substr(0, 40));
    using Part = GrammarPart;
    return Grammar::choice_of(
        {{Part::without_any({mark, "2a"})},
         {Part::until(mark), Part::several({{Part::literal("ab"), Part::until("12")}}),
          Part::one_of({{Part::literal(mark)}, {Part::none_of("a")}, {}})}});
  }
  return Grammar::choice_of(
      {{{Kind::kLiteral, "<x>"}, {Kind::kSchema, std::string(text)}}, {{Kind::kLiteral, "ab"}}});
}

void walk(const Grammar::Shared& grammar, uint32_t random) {
  GrammarMatcher matcher(grammar->automaton());
  const TokenGrammar tokens(grammar, trie());
  TokenGrammar::Path path;
  std::vector<int32_t> reply;
  for (int i = 0; i < 40; ++i) {
    const auto mask = tokens.mask(reply, path);
    SB_CHECK(mask && mask->n() > 0);  // each byte is a token
    const TokenGrammar::Forced forced = tokens.forced(reply, path);
    if (forced.token >= 0) SB_CHECK(mask->has(forced.token));
    random = random * 1664525 + 1013904223;
    for (const int32_t any : {257, static_cast<int32_t>((random >> 16) % 267)}) {
      SB_CHECK(!tokens.allows(reply, any, path) || mask->has(any));
    }
    int32_t token = static_cast<int32_t>((random >> 8) % 267);
    while (!mask->has(token)) token = (token + 1) % 267;
    SB_CHECK(tokens.allows(reply, token, path));
    if (tokens.ends(token)) {
      SB_CHECK(!tokens.allows(reply, (token + 1) % 257, path) || mask->n() > 1);
      return;
    }
    reply.push_back(token);
    if (tokens.complete(reply, path)) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    walk(read(data[0] % 4, text), static_cast<uint32_t>(size));
  } catch (const Error& e) {
    SB_CHECK(*e.what() != '\0');
  }
  return 0;
}
