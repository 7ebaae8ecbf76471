// Byte-level BPE against published vectors, and what it does with special tokens, broken text,
// broken vocabularies and very long text.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "expect_error.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "tiny_bpe.h"
#include "tokenizer_vectors.h"

namespace specbound::bpe_tokenizer_test {

namespace {

using test::check_mentions;
using test::expect_error;
using test::kParse;
using test::kPlain;
using test::spelled_byte;
using test::TinyBpe;
using Ids = std::vector<int32_t>;

const std::string kGpt2 = SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-gpt-2.gguf";
const std::string kSpace = spelled_byte(' ');

std::unique_ptr<Tokenizer> gpt2() {
  return Tokenizer::from_gguf(Gguf::open(kGpt2));
}

TinyBpe complete() {
  TinyBpe v;
  v.add_bytes();
  return v;
}

void check_refused(const TinyBpe& v, std::initializer_list<std::string_view> parts) {
  const std::string text = expect_error(ErrorCode::kFormat, [&] { v.load(); });
  check_mentions(text, parts);
  check_mentions(text, {"tiny.gguf"});
}

void check_vectors(const Tokenizer& tokenizer, const std::string& path) {
  const auto tests = test::tokenizer_vectors(path);
  CHECK(tests.size() == 46);
  for (const auto& v : tests) {
    CAPTURE(v.text);
    CHECK(tokenizer.encode(v.text, kPlain) == v.ids);
    CHECK(tokenizer.encode(v.text, kParse) == v.ids);
    CHECK(tokenizer.decode(v.ids) == v.text);
  }
}

std::string random_bytes(std::mt19937& random, size_t size) {
  std::string text;
  for (; size > 0; --size) text += static_cast<char>(random());
  return text;
}

}  // namespace

TEST_CASE("tokenizer: published vectors of the GPT-2 vocabulary") {
  const auto t = gpt2();
  check_vectors(*t, kGpt2);
  CHECK(t->vocab_size() == 50257);
  CHECK(t->bos() == 50256);
  CHECK(t->eos() == 50256);
  CHECK_FALSE(t->add_bos());
  CHECK(t->is_end(50256));
  CHECK(t->is_control(50256));
  CHECK(t->piece(50256) == "");
  CHECK(t->piece(50256, true) == "<|endoftext|>");
  CHECK(t->piece(995) == " world");
  CHECK(t->piece(198) == "\n");
  CHECK(t->piece(-1) == "");
  CHECK(t->piece(50257) == "");
  CHECK(t->encode("") == Ids{});
}

// Meta's vocabulary may not be passed on: it lies outside the repository.
TEST_CASE("tokenizer: published vectors of the Llama 3 vocabulary") {
  const char* shared = std::getenv("SPECBOUND_SHARED");
  if (!shared) {
    MESSAGE("SKIP: SPECBOUND_SHARED is not set: no Llama 3 vocabulary");
    return;
  }
  const std::string folder = std::string(shared) + "/data/tokenizer/";
  const auto encoder = nlohmann::json::parse(test::read_file(folder + "llama3/encoder.json"));
  TinyBpe v;
  v.pre = "llama-bpe";
  v.tokens.resize(encoder.size());
  for (const auto& item : encoder.items()) v.tokens.at(item.value().get<size_t>()) = item.key();
  std::istringstream merges(test::read_file(folder + "llama3/vocab.bpe"));
  for (std::string line; std::getline(merges, line);) v.merges.push_back(line);
  const int32_t bos = v.add("<|begin_of_text|>", TokenType::kControl);
  v.more = [&](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos));
  };
  const auto t = v.load();
  CHECK(v.merges.size() == 280147);
  check_vectors(*t, folder + "ggml-vocab-llama-bpe.gguf");
  CHECK(t->add_bos());
  CHECK(t->encode("Hello world") == Ids{bos, 9906, 1917});
  // Every word that is a token becomes that token, though some come of no merges.
  v.pre = "dbrx";
  const auto merged = v.load();
  int unmerged = 0;
  for (int32_t id = 0; id < 128000; ++id) {
    const std::string text = t->piece(id);
    const Ids whole = t->encode(text, kPlain);
    if (whole == merged->encode(text, kPlain)) continue;
    CHECK(whole == Ids{id});
    ++unmerged;
  }
  CHECK(unmerged == 588);
  CHECK_FALSE(merged->add_bos());
  test::check_long_texts(*t, test::long_texts(1 << 18));
}

TEST_CASE("tokenizer: what was learned first merges first, the leftmost of equals") {
  TinyBpe v = complete();
  const int32_t bc = v.add_merge("b", "c");
  const int32_t ab = v.add_merge("a", "b");
  const int32_t aa = v.add_merge("a", "a");
  const int32_t abc = v.add_merge("a", "bc");
  const int32_t aaaa = v.add_merge("aa", "aa");
  const auto t = v.load();
  CHECK(t->encode("abc", kPlain) == Ids{abc});
  CHECK(t->encode("abab", kPlain) == Ids{ab, ab});
  CHECK(t->encode("aab", kPlain) == Ids{'a', ab});
  CHECK(t->encode("aaa", kPlain) == Ids{aa, 'a'});
  CHECK(t->encode("aaaaa", kPlain) == Ids{aaaa, 'a'});
  CHECK(t->encode("bbc", kPlain) == Ids{'b', bc});
  CHECK(t->encode("a b", kPlain) == Ids{'a', ' ', 'b'});
}

TEST_CASE("tokenizer: a word that is a token, where the family does not ask for its merges") {
  TinyBpe v = complete();
  const int32_t hello = v.add(kSpace + "hello");
  const int32_t he = v.add_merge("h", "e");
  const int32_t control = v.add("stop", TokenType::kControl);
  for (const char* pre : {"gpt-2", "llama-bpe"}) {
    v.pre = pre;
    v.more = [](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_bos_token", false); };
    const auto t = v.load();
    const Ids merged = {' ', he, 'l', 'l', 'o'};
    CHECK(t->encode(" hello", kPlain) == (v.pre == "gpt-2" ? merged : Ids{hello}));
    CHECK(t->encode("stop", kPlain) == Ids{'s', 't', 'o', 'p'});
    CHECK(t->encode("stop", kParse) == Ids{control});
  }
}

TEST_CASE("tokenizer: special tokens of byte-level vocabularies") {
  TinyBpe v = complete();
  const int32_t ab = v.add_merge("a", "b");
  const int32_t start = v.add("<|im_start|>", TokenType::kControl);
  const int32_t end = v.add("<|im_end|>", TokenType::kControl);
  const int32_t spaces = v.add("    ", TokenType::kUserDefined);
  const int32_t accent = v.add("x\xC3\xB5", TokenType::kUserDefined);  // not spelled in bytes
  v.more = [&](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(start));
    w.add_uint("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end));
    w.add_bool("tokenizer.ggml.add_bos_token", true);
    w.add_bool("tokenizer.ggml.add_eos_token", true);
  };
  const auto t = v.load();
  CHECK(t->encode("ab") == Ids{start, ab, end});
  CHECK(t->encode("<|im_start|>ab<|im_end|>", kParse) == Ids{start, ab, end});
  const Ids plain = t->encode("<|im_start|>ab", kPlain);
  CHECK(std::find(plain.begin(), plain.end(), start) == plain.end());
  CHECK(t->decode(plain) == "<|im_start|>ab");
  CHECK(t->encode("ab    ab", kPlain) == Ids{ab, spaces, ab});
  CHECK(t->decode(Ids{ab, spaces, ab}) == "ab    ab");
  CHECK(t->encode("x\xC3\xB5", kPlain) == Ids{accent});
  CHECK(t->decode(Ids{start, accent, end}) == "x\xC3\xB5");
  CHECK(t->decode(Ids{start, accent, end}, true) == "<|im_start|>x\xC3\xB5<|im_end|>");
  CHECK(t->is_end(end));
  CHECK_FALSE(t->is_end(start));
}

// Phi-4-mini is such a model.
TEST_CASE("tokenizer: white space behind the special tokens of a byte-level Phi-3") {
  TinyBpe v = complete();
  const int32_t user = v.add("<|user|>", TokenType::kControl);
  const int32_t start = v.add("<s>", TokenType::kControl);
  v.more = [](GgufWriter& w) { w.add_string("general.name", "Phi-4"); };
  CHECK(v.load()->encode("<|user|>\na", kParse) == Ids{user, '\n', 'a'});
  v.more = [](GgufWriter& w) { w.add_string("general.name", "My pHi3"); };
  const auto t = v.load();
  CHECK(t->encode("<|user|> \n\ta b", kParse) == Ids{user, 'a', ' ', 'b'});
  CHECK(t->encode("<|user|>\n", kParse) == Ids{user});
  CHECK(t->encode("<s> a", kParse) == Ids{start, ' ', 'a'});
  CHECK(t->encode("a\n", kPlain) == Ids{'a', '\n'});
}

TEST_CASE("tokenizer: merging never makes a control token") {
  TinyBpe v = complete();
  const int32_t ab = v.add_merge("a", "b");
  v.merges.push_back("ab c");
  const int32_t abc = v.add("abc", TokenType::kControl);
  v.merges.push_back("a bc");
  const int32_t bc = v.add_merge("b", "c");
  const auto t = v.load();
  CHECK(t->encode("abc", kPlain) == Ids{ab, 'c'});
  CHECK(t->encode("bc", kPlain) == Ids{bc});
  CHECK(t->encode("abc", kParse) == Ids{abc});
}

TEST_CASE("tokenizer: any bytes come back from byte-level vocabularies") {
  const auto t = gpt2();
  CHECK(t->encode("\xE2\x82", kPlain).size() == 2);
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_bytes(random, random() % 40);
    const Ids ids = t->encode(text);
    REQUIRE(t->decode(ids) == text);
    // Shown piece by piece, it is shown as whole.
    Utf8Stream whole, pieces;
    std::string shown;
    for (const int32_t id : ids) shown += pieces.push(t->piece(id));
    shown += pieces.finish();
    std::string expected = whole.push(text);
    expected += whole.finish();
    REQUIRE(shown == expected);
  }
}

TEST_CASE("tokenizer: bytes that a vocabulary lacks") {
  // Those that occur in no UTF-8 may be absent, or stand for a character that is matched itself.
  TinyBpe v;
  for (int byte = 0; byte < 0xF5; ++byte) v.add(spelled_byte(byte));
  const int32_t f5 = v.add("\xC3\xB5", TokenType::kUserDefined);  // U+00F5
  for (const char* pre : {"gpt-2", "deepseek-coder"}) {
    v.pre = pre;
    const auto t = v.load();
    CHECK(t->encode("\xC3\xB5", kPlain) == Ids{f5});
    CHECK(t->decode(Ids{f5}) == "\xC3\xB5");
    const Ids replaced = t->encode("\xF5\xFF", kPlain);
    CHECK(replaced == Ids{0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD});
  }
  // Of others only the texts are refused that hold them.
  const auto check_lacks = [](const TinyBpe& vocabulary, const std::string& text,
                              const char* byte) {
    const auto t = vocabulary.load();
    CHECK(t->encode("ab", kPlain) == Ids{'a', 'b'});
    check_mentions(expect_error(ErrorCode::kUnsupported, [&] { t->encode(text, kPlain); }),
                   {byte, "unknown token"});
  };
  v = complete();
  v.tokens[0x20] = "other";
  check_lacks(v, "a b", "byte 0x20");
  v = complete();
  v.types.assign(256, 1);
  v.types['x'] = static_cast<int32_t>(TokenType::kControl);
  check_lacks(v, "abx", "byte 0x78");
  v = complete();
  v.tokens[0xEF] = "other";
  v.tokens[0xFF] = "another";
  check_lacks(v, "a\xFF", "byte 0xEF");  // of U+FFFD, which would stand for it
  v = complete();
  v.tokens[0x20] = "other";
  const int32_t unknown = v.add("<unk>", TokenType::kUnknown);
  v.more = [&](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(unknown));
  };
  CHECK(v.load()->encode("a  b", kPlain) == Ids{'a', unknown, unknown, 'b'});
}

TEST_CASE("tokenizer: tokens that are spelled in no bytes stand for their text") {
  TinyBpe v = complete();
  const int32_t odd = v.add("a b");
  const int32_t cjk = v.add("\xE6\x88\x91");
  const int32_t broken = v.add("a\xC4");
  const auto t = v.load();
  CHECK(t->piece(odd) == "a b");
  CHECK(t->piece(cjk) == "\xE6\x88\x91");
  CHECK(t->piece(broken) == "a\xC4");
}

TEST_CASE("vocabulary: merges that were made to collide are refused, not waited for") {
  TinyBpe v;
  constexpr uint64_t kTokens = 1000, kMerges = 600;  // for which there are 1024 slots
  const auto text = [](uint64_t id) { return std::to_string(1000 + id); };
  for (uint64_t id = 0; id < kTokens; ++id) v.add(text(id));
  for (uint64_t pair = 0; pair < kTokens * kTokens && v.merges.size() < kMerges; ++pair) {
    const uint64_t left = pair / kTokens, right = pair % kTokens;
    const uint64_t hash = (left << 32 | right) * 0x9E3779B97F4A7C15u >> 32;
    if (hash % 1024 == 5) v.add_merge(text(left), text(right));
  }
  REQUIRE(v.merges.size() == kMerges);
  check_refused(v, {"tokenizer.ggml.merges", "entry 512", "collides with more than 511 others"});
  v.merges.resize(100);
  CHECK_NOTHROW(v.load());
}

TEST_CASE("vocabulary: how words are cut must be known") {
  TinyBpe v = complete();
  const auto message = [&] { return expect_error(ErrorCode::kUnsupported, [&] { v.load(); }); };
  v.pre = "some-new\nmodel";
  check_mentions(message(), {"tiny.gguf", "tokenizer.ggml.pre", "some-new\\x0amodel"});
  v.pre = std::string(100000, 'x');
  CHECK(message().size() < 400);
  CHECK(complete().load()->notes().empty());
  v.pre = "";  // no such key
  const int32_t merged = v.add_merge("1", "2");
  const auto t = v.load();
  CHECK(t->encode("12 1234", kPlain) == Ids{merged, ' ', merged, '3', '4'});
  REQUIRE(t->notes().size() == 1);
  check_mentions(t->notes()[0], {"tokenizer.ggml.pre is missing", "default"});
  v.more = [](GgufWriter& w) { w.add_uint("tokenizer.ggml.pre", 1); };
  check_refused(v, {"tokenizer.ggml.pre"});
}

TEST_CASE("vocabulary: broken merges are refused") {
  TinyBpe v = complete();
  v.with_merges = false;
  check_refused(v, {"tokenizer.ggml.merges", "missing"});
  v.more = [](GgufWriter& w) { w.add_string("tokenizer.ggml.merges", "a b"); };
  check_refused(v, {"tokenizer.ggml.merges"});
  for (const char* merge : {"", " ", "a", "ab", "a ", " b", "a b c", "a  b", "  ", "a b "}) {
    v = complete();
    v.add_merge("a", "b");
    v.merges.emplace_back(merge);
    CAPTURE(merge);
    check_refused(v, {"merges", "entry 1", "two tokens"});
  }
  v = complete();
  v.merges = {"a b"};
  check_refused(v, {"entry 0", "\"ab\" is no token"});
  v.merges = {"abc d"};
  check_refused(v, {"entry 0", "\"abc\" is no token"});
  v.merges = {"a bcd"};
  check_refused(v, {"entry 0", "\"bcd\" is no token"});
  v = complete();
  v.add_merge("a", "b");
  v.add_merge("b", "c");
  v.merges.emplace_back("a b");
  check_refused(v, {"entry 2", "the same as entry 0"});
  v = complete();
  CHECK(v.load()->encode("ab", kPlain) == Ids{'a', 'b'});  // no merges at all
}

TEST_CASE("tokenizer: a megabyte of any text takes well under a second in byte-level BPE") {
  if (!test::kBounded) MESSAGE("SKIP: the time bound holds for Release builds without sanitizers");
  test::check_long_texts(*gpt2(), test::long_texts(1 << 20));
}

// The families whose expressions have the most to try. What tries the rest of a text from each
// place of it takes minutes here, not milliseconds.
TEST_CASE("tokenizer: no family tries the places of a long text again and again") {
  TinyBpe v = complete();
  v.add_merge("a", "a");
  v.add_merge(kSpace, kSpace);
  v.more = [](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_bos_token", false); };
  const auto texts = test::long_texts(1 << 17);
  for (const char* pre : {"llama-bpe", "gpt-4o", "deepseek-llm", "deepseek-v3", "falcon"}) {
    v.pre = pre;
    CAPTURE(v.pre);
    test::check_long_texts(*v.load(), texts);
  }
}

}  // namespace specbound::bpe_tokenizer_test
