// The SentencePiece tokenizer against published vectors, and what it does with special tokens,
// spaces, broken text and very long text.
#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tiny_vocabulary.h"
#include "tokenizer_vectors.h"

namespace specbound::tokenizer_test {

namespace {

using test::kParse;
using test::kPlain;
using test::TinyVocabulary;
using Ids = std::vector<int32_t>;

const std::string kData = SPECBOUND_TEST_DATA "/tokenizer/";

std::unique_ptr<Tokenizer> load(const std::string& path) {
  return Tokenizer::from_gguf(Gguf::open(path));
}

}  // namespace

TEST_CASE("tokenizer: published vectors of the Llama 2 and Phi-3 vocabularies") {
  for (const std::string name : {"ggml-vocab-llama-spm.gguf", "ggml-vocab-phi-3.gguf"}) {
    CAPTURE(name);
    const auto tokenizer = load(kData + name);
    const auto tests = test::tokenizer_vectors(kData + name);
    CHECK(tests.size() == 46);
    for (const auto& v : tests) {
      CAPTURE(v.text);
      CHECK(tokenizer->encode(v.text, kPlain) == v.ids);
      CHECK(tokenizer->encode(v.text, kParse) == v.ids);
      CHECK(tokenizer->decode(v.ids) == v.text);
      Ids with_bos = v.ids;
      with_bos.insert(with_bos.begin(), 1);
      CHECK(tokenizer->encode(v.text) == with_bos);
      CHECK(tokenizer->decode(with_bos) == v.text);
    }
  }
}

TEST_CASE("tokenizer: what the Llama 2 vocabulary declares") {
  const auto t = load(kData + "ggml-vocab-llama-spm.gguf");
  CHECK(t->vocab_size() == 32000);
  CHECK(t->bos() == 1);
  CHECK(t->eos() == 2);
  CHECK(t->add_bos());
  CHECK(t->is_end(2));
  CHECK_FALSE(t->is_end(1));
  CHECK_FALSE(t->is_end(-1));
  CHECK_FALSE(t->is_end(32000));
  CHECK(t->is_control(1));
  CHECK_FALSE(t->is_control(0));
  CHECK_FALSE(t->is_control(32000));
  CHECK(t->piece(1) == "");
  CHECK(t->piece(1, true) == "<s>");
  CHECK(t->piece(0) == "");
  CHECK(t->piece(0, true) == "<unk>");
  CHECK(t->piece(13) == "\n");         // <0x0A>
  CHECK(t->piece(15043) == " Hello");  // the space is the token's own
  CHECK(t->piece(-1) == "");
  CHECK(t->piece(32000) == "");
}

TEST_CASE("tokenizer: control tokens come from text only when asked for") {
  const auto t = load(kData + "ggml-vocab-llama-spm.gguf");
  const std::string text = "<s>Hello</s> world<unk>";
  const Ids plain = t->encode(text, kPlain);
  CHECK(std::none_of(plain.begin(), plain.end(), [](int32_t id) { return id <= 2; }));
  CHECK(t->decode(plain) == text);
  // The space in front of a text is put behind special tokens too, so " world" has two.
  CHECK(t->encode(text, kParse) == Ids{1, 15043, 2, 29871, 3186, 0});
  CHECK(t->encode("<s>", kParse) == Ids{1});
  CHECK(t->encode("</s></s>", kParse) == Ids{2, 2});
  CHECK(t->encode("", kParse) == Ids{});
  CHECK(t->encode("") == Ids{1});
  CHECK(t->decode(Ids{1, 15043, 3186, 2}) == "Hello world");
  CHECK(t->decode(Ids{1, 15043, 3186, 2}, true) == "<s>Hello world</s>");
  CHECK(t->decode(Ids{1, 29871, 15043}) == " Hello");
  CHECK(t->decode(Ids{}) == "");
}

TEST_CASE("tokenizer: Phi-3's special tokens swallow the white space behind them") {
  const auto t = load(kData + "ggml-vocab-phi-3.gguf");
  const Ids hello = t->encode("Hello", kPlain);
  const auto with = [&](int32_t id) {
    Ids ids = {id};
    ids.insert(ids.end(), hello.begin(), hello.end());
    return ids;
  };
  CHECK(t->encode("<|user|>\nHello", kParse) == with(32010));
  CHECK(t->encode("<|user|> \t\r\n Hello", kParse) == with(32010));
  CHECK(t->encode("<|user|>\n", kParse) == Ids{32010});
  CHECK(t->encode("<s>Hello", kParse) == with(1));
  CHECK(t->encode("<s>\nHello", kParse) != with(1));
  CHECK(t->encode("<|endoftext|>\nHello", kParse) != with(32000));
  CHECK(t->encode("Hi<|end|>\n<|assistant|>\n", kParse) == Ids{6324, 32007, 32001});
  for (const int32_t id : {2, 32000, 32007}) CHECK(t->is_end(id));
  for (const int32_t id : {1, 32001, 32010}) CHECK_FALSE(t->is_end(id));
  // The file calls </s> user-defined; as it ends replies, text does not produce it.
  const Ids text = t->encode("a</s>b", kPlain);
  CHECK(std::find(text.begin(), text.end(), 2) == text.end());
}

TEST_CASE("tokenizer: user-defined tokens are always whole, the leftmost longest first") {
  TinyVocabulary v;
  v.add_bytes();
  const auto first = static_cast<int32_t>(v.tokens.size());
  for (const char* text : {"<x>", "<x><y>", "y><"}) {
    v.tokens.push_back({text, 0, TokenType::kUserDefined});
  }
  v.tokens.push_back({"a"});
  v.tokens.push_back({"\xE2\x96\x81"});
  const int32_t x = first, xy = first + 1, y = first + 2, a = first + 3, space = first + 4;
  const auto t = v.load();
  CHECK(t->encode("a<x>a", kPlain) == Ids{space, a, x, space, a});
  CHECK(t->encode("<x><y>a", kPlain) == Ids{xy, space, a});
  CHECK(t->encode("<x><x><y>", kPlain) == Ids{x, xy});
  CHECK(t->encode("y><x>", kPlain) == Ids{y, space, 3 + 'x', 3 + '>'});
  CHECK(t->decode(Ids{space, a, x}) == "a<x>");
  v.more = [](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_space_prefix", false); };
  const auto bare = v.load();
  CHECK(bare->encode("a<x>a", kPlain) == Ids{a, x, a});
  CHECK(bare->encode(" a", kPlain) == Ids{space, a});
  CHECK(bare->decode(Ids{space, a}) == " a");
}

TEST_CASE("tokenizer: the highest score merges first, the leftmost of equals") {
  TinyVocabulary v;
  v.add_bytes();
  const auto n = static_cast<int32_t>(v.tokens.size());
  v.more = [](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_space_prefix", false); };
  for (const auto& [text, score] : {std::pair{"a", -9.f},
                                    {"b", -9.f},
                                    {"aa", -1.f},
                                    {"ab", -1.f},
                                    {"ba", -0.5f},
                                    {"aba", -2.f}}) {
    v.tokens.push_back({text, score});
  }
  const int32_t a = n, aa = n + 2, ab = n + 3, ba = n + 4, aba = n + 5;
  const auto t = v.load();
  CHECK(t->encode("aaa", kPlain) == Ids{aa, a});
  CHECK(t->encode("aab", kPlain) == Ids{aa, n + 1});
  CHECK(t->encode("aba", kPlain) == Ids{aba});  // a + ba
  CHECK(t->encode("bab", kPlain) == Ids{ba, n + 1});
  CHECK(t->encode("abab", kPlain) == Ids{aba, n + 1});
  CHECK(t->encode("ab", kPlain) == Ids{ab});
  CHECK(t->encode("abc", kPlain) == Ids{ab, 3 + 'c'});
}

TEST_CASE("tokenizer: bytes that are no UTF-8 stand alone and come back unchanged") {
  for (const std::string name : {"ggml-vocab-llama-spm.gguf", "ggml-vocab-phi-3.gguf"}) {
    const auto t = load(kData + name);
    CHECK(t->encode("\xE2\x82", kPlain) == Ids{29871, 3 + 0xE2, 3 + 0x82});
    // A stray lead byte does not take the letters behind it along.
    const Ids hello = t->encode("Hello", kPlain);
    const Ids stray = t->encode("\xF0 Hello", kPlain);
    CHECK(stray == Ids{29871, 3 + 0xF0, hello[0]});
    std::mt19937 random(7);
    for (int i = 0; i < 2000; ++i) {
      std::string text;
      for (size_t n = random() % 40; n > 0; --n) text += static_cast<char>(random());
      const Ids ids = t->encode(text);
      REQUIRE(t->decode(ids) == text);
    }
  }
}

TEST_CASE("tokenizer: without byte tokens a stretch of unknown characters is one unknown token") {
  TinyVocabulary v;
  v.tokens.push_back({"a"});
  v.tokens.push_back({"\xE2\x96\x81"});
  const auto t = v.load();
  CHECK(t->encode("a\xE2\x82\xAC\xC3\xBC"
                  "a",
                  kPlain) == Ids{4, 3, 0, 3});
  CHECK(t->encode("\xFF\xFF a \xFF", kPlain) == Ids{4, 0, 4, 3, 4, 0});
}

// Fails when encoding takes more than a second of CPU time per megabyte, in builds meant to be
// fast.
TEST_CASE("tokenizer: a megabyte of any text takes well under a second") {
  if (!test::kBounded) MESSAGE("SKIP: the time bound holds for Release builds without sanitizers");
  test::check_long_texts(*load(kData + "ggml-vocab-llama-spm.gguf"), test::long_texts(1 << 20));
  test::check_long_texts(*load(kData + "ggml-vocab-phi-3.gguf"), test::long_texts(1 << 18));
}

}  // namespace specbound::tokenizer_test
