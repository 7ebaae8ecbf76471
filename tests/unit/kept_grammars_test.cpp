// Grammars that are kept for later requests: the same one is found again, and all together take no
// more than they may.
#include "server/kept_grammars.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "piece_tokenizer.h"

namespace kept_grammars_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;

namespace {

// Each of about 12 KB of source.
Grammar::Shared large(int number) {
  return Grammar::from_gbnf("root ::= \"" + std::string(12'000, 'a') + std::to_string(number) +
                            '"');
}

}  // namespace

TEST_CASE("kept grammars: by their bytes, the oldest goes first, the newest never") {
  const PieceTokenizer tokenizer(byte_pieces({{"</s>", true, true}}));
  int made = 0;
  const auto make = [&](const Grammar::Shared& grammar) {
    ++made;
    return std::make_shared<const TokenGrammar>(grammar, trie_of(tokenizer));
  };
  const size_t one = make(large(0))->bytes();
  CHECK(one > 12'000);
  KeptGrammars kept(3 * one + one / 2, make);
  CHECK(kept.of(nullptr) == nullptr);
  made = 0;
  const auto first = kept.of(large(1));
  for (const int number : {2, 3, 1}) kept.of(large(number));
  CHECK(made == 3);
  CHECK(kept.of(large(1)) == first);
  kept.of(large(4));  // 2 goes
  CHECK(kept.size() == 3);
  kept.of(large(3));
  kept.of(large(1));
  CHECK(made == 4);
  kept.of(large(2));
  CHECK(made == 5);
  // Small ones are many.
  for (int i = 0; i < 50; ++i) kept.of(Grammar::from_gbnf("root ::= \"" + std::to_string(i) + '"'));
  CHECK(kept.size() > 50);
  // What is found counts, too.
  const auto grown = kept.of(large(5));
  const size_t before = grown->bytes();
  TokenGrammar::Path path;
  std::vector<int32_t> reply;
  for (int i = 0; i < 2000; ++i) {
    grown->mask(reply, path);
    reply.push_back('a');
  }
  CHECK(grown->bytes() > before + 100'000);
  KeptGrammars few(1, make);
  CHECK(few.of(large(6)) != nullptr);
  CHECK(few.size() == 1);
  few.of(large(7));
  CHECK(few.size() == 1);
}

TEST_CASE("kept grammars: tiny ones count too, by what one takes and by how many there are") {
  const PieceTokenizer tokenizer(byte_pieces({{"</s>", true, true}}));
  const auto trie = trie_of(tokenizer);
  int made = 0;
  KeptGrammars kept(size_t{1} << 30, [&](const Grammar::Shared& grammar) {
    ++made;
    return std::make_shared<const TokenGrammar>(grammar, trie);
  });
  const auto tiny = [](size_t number) {
    return Grammar::from_gbnf("root ::= \"" + std::to_string(number) + '"');
  };
  CHECK(kept.of(tiny(0))->bytes() > 1000);
  for (size_t i = 1; i <= KeptGrammars::kMost; ++i) kept.of(tiny(i));
  CHECK(kept.size() == KeptGrammars::kMost);
  made = 0;
  kept.of(tiny(1));
  CHECK(made == 0);
  kept.of(tiny(0));
  CHECK(made == 1);
  CHECK(kept.size() == KeptGrammars::kMost);
}

}  // namespace kept_grammars_test
