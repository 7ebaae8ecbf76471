// Vocabularies that are broken, or of a kind that cannot be run: each is refused in one clear line.
#include "text/vocabulary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "expect_error.h"
#include "model/gguf_writer.h"
#include "text/tokenizer.h"
#include "tiny_vocabulary.h"

namespace specbound::vocabulary_test {

namespace {

using test::check_mentions;
using test::expect_error;
using test::TinyVocabulary;
using Ids = std::vector<int32_t>;

TinyVocabulary complete() {
  TinyVocabulary v;
  v.add_bytes();
  return v;
}

void check_refused(const TinyVocabulary& v, std::initializer_list<std::string_view> parts) {
  const std::string text = expect_error(ErrorCode::kFormat, [&] { v.load(); });
  check_mentions(text, parts);
  check_mentions(text, {"tiny.gguf"});
}

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};

}  // namespace

TEST_CASE("vocabulary: kinds that cannot be run yet are named") {
  TinyVocabulary v = complete();
  v.model = "bert";
  check_mentions(expect_error(ErrorCode::kUnsupported, [&] { v.load(); }),
                 {"tiny.gguf", "bert", "WordPiece", "llama", "gpt2"});
  v.model = "new\nkind";
  check_mentions(expect_error(ErrorCode::kUnsupported, [&] { v.load(); }), {"new\\x0akind"});
  v.model = "";
  check_refused(v, {"tokenizer.ggml.model", "no vocabulary"});
}

TEST_CASE("vocabulary: tables that are missing, empty or of other lengths") {
  TinyVocabulary v = complete();
  CHECK_NOTHROW(v.load());
  v.with_scores = false;
  check_refused(v, {"tokenizer.ggml.scores", "missing"});
  v = complete();
  v.with_types = false;
  check_refused(v, {"tokenizer.ggml.token_type", "missing"});
  v.tokens.clear();
  check_refused(v, {"tokenizer.ggml.tokens", "empty"});

  const auto write = [](auto&& fill) {
    GgufWriter w;
    w.add_string("tokenizer.ggml.model", "llama");
    fill(w);
    const auto bytes = w.serialize();
    const Gguf gguf = Gguf::parse(bytes, "tiny.gguf");
    return expect_error(ErrorCode::kFormat, [&] { Tokenizer::from_gguf(gguf); });
  };
  const std::vector<std::string_view> texts = {"<unk>", "a", "b"};
  const std::vector<int32_t> types = {2, 1, 1}, few_types = {2, 1}, many_types = {2, 1, 1, 1};
  const std::vector<float> scores = {0, 0, 0}, few_scores = {0}, many_scores = {0, 0, 0, 0};
  check_mentions(write([](GgufWriter&) {}), {"tokenizer.ggml.tokens", "missing"});
  check_mentions(write([&](GgufWriter& w) {
                   w.add_strings("tokenizer.ggml.tokens", texts);
                   w.add_ints("tokenizer.ggml.token_type", few_types);
                 }),
                 {"token_type", "2 entries", "3 tokens"});
  check_mentions(write([&](GgufWriter& w) {
                   w.add_strings("tokenizer.ggml.tokens", texts);
                   w.add_ints("tokenizer.ggml.token_type", many_types);
                 }),
                 {"token_type", "4 entries", "3 tokens"});
  for (const auto* wrong : {&few_scores, &many_scores}) {
    check_mentions(write([&](GgufWriter& w) {
                     w.add_strings("tokenizer.ggml.tokens", texts);
                     w.add_ints("tokenizer.ggml.token_type", types);
                     w.add_floats("tokenizer.ggml.scores", *wrong);
                   }),
                   {"scores", std::to_string(wrong->size()) + " entries", "3 tokens"});
  }
  // Arrays of other types, and no arrays at all.
  check_mentions(write([&](GgufWriter& w) { w.add_floats("tokenizer.ggml.tokens", scores); }),
                 {"tokenizer.ggml.tokens", "string"});
  check_mentions(write([&](GgufWriter& w) { w.add_string("tokenizer.ggml.tokens", "a"); }),
                 {"tokenizer.ggml.tokens", "string"});
  check_mentions(write([&](GgufWriter& w) {
                   w.add_strings("tokenizer.ggml.tokens", texts);
                   w.add_floats("tokenizer.ggml.token_type", scores);
                 }),
                 {"tokenizer.ggml.token_type"});
  check_mentions(write([&](GgufWriter& w) {
                   w.add_strings("tokenizer.ggml.tokens", texts);
                   w.add_ints("tokenizer.ggml.token_type", types);
                   w.add_ints("tokenizer.ggml.scores", types);
                 }),
                 {"tokenizer.ggml.scores"});
}

TEST_CASE("vocabulary: entries that make no sense") {
  TinyVocabulary v = complete();
  v.tokens.push_back({"a", std::nanf("")});
  check_refused(v, {"scores", "token 259", "not a number"});
  v.tokens.back().score = -std::numeric_limits<float>::infinity();
  CHECK_NOTHROW(v.load());

  v = complete();
  v.tokens.push_back({"same"});
  v.tokens.push_back({"other"});
  v.tokens.push_back({"same"});
  check_refused(v, {"259", "261", "same"});

  for (const int type : {0, 7, -1, 1000}) {
    v = complete();
    v.tokens.push_back({"a", 0, static_cast<TokenType>(static_cast<uint8_t>(type))});
    check_refused(v, {"token 259", "type"});
  }
  for (const char* text : {"<0x0>", "<0xG0>", "0x000>", "<0x000>", "x", ""}) {
    v = complete();
    v.tokens.push_back({text, 0, TokenType::kByte});
    check_refused(v, {"token 259", "byte"});
  }
  v = complete();
  v.tokens.pop_back();  // <0xFF>
  CHECK_NOTHROW(v.load());
  v.tokens[0] = {"x"};  // no unknown token either: only text with that byte is refused
  const auto t = v.load();
  CHECK(t->encode("ab").back() == 3 + 'b');
  check_mentions(expect_error(ErrorCode::kUnsupported, [&] { t->encode("a\xFF"); }),
                 {"byte 0xFF", "unknown token"});
}

TEST_CASE("vocabulary: special ids out of range are told and read as if there were none") {
  for (const char* key : {"bos", "eos", "unknown", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    TinyVocabulary v = complete();
    const std::string name = std::string("tokenizer.ggml.") + key + "_token_id";
    for (const uint32_t id : {259u, 0xFFFFFFFEu}) {
      v.more = [&](GgufWriter& w) { w.add_uint(name, id); };
      const auto told = v.load();
      CHECK(told->bos() == 1);
      CHECK(told->eos() == 2);
      REQUIRE(told->notes().size() == 1);
      check_mentions(told->notes()[0], {name, std::to_string(id), "259 tokens"});
    }
    v.more = [&](GgufWriter& w) { w.add_uint(name, 258); };
    CHECK(v.load()->notes().empty());
    v.more = [&](GgufWriter& w) { w.add_string(name, "2"); };
    check_refused(v, {name});
  }
  TinyVocabulary v = complete();
  v.more = [](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.bos_token_id", 0xFFFFFFFF);  // none
    w.add_uint("tokenizer.ggml.eos_token_id", 0xFFFFFFFF);
  };
  const auto t = v.load();
  CHECK(t->bos() == -1);
  CHECK(t->eos() == -1);
  CHECK_FALSE(t->add_bos());
  CHECK(t->encode("") == Ids{});
  v.more = [](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.bos_token_id", 0xFFFFFFFF);
    w.add_bool("tokenizer.ggml.add_bos_token", true);
  };
  check_refused(v, {"add_bos_token"});
  v.more = [](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.eos_token_id", 0xFFFFFFFF);
    w.add_bool("tokenizer.ggml.add_eos_token", true);
  };
  check_refused(v, {"add_eos_token"});
}

TEST_CASE("vocabulary: what holds when the file does not say") {
  const auto t = complete().load();
  CHECK(t->bos() == 1);
  CHECK(t->eos() == 2);
  CHECK(t->add_bos());
  TinyVocabulary v = complete();
  v.tokens[1] = {"plain"};
  CHECK(v.load()->bos() == -1);
  v = complete();
  v.more = [](GgufWriter& w) {
    w.add_bool("tokenizer.ggml.add_bos_token", false);
    w.add_bool("tokenizer.ggml.add_eos_token", true);
  };
  CHECK(v.load()->encode("") == Ids{2});
}

TEST_CASE("vocabulary: an empty token keeps its id and comes from no text") {
  TinyVocabulary v = complete();
  for (const TokenType type : {TokenType::kNormal, TokenType::kControl, TokenType::kUserDefined,
                               TokenType::kUnused, TokenType::kUnknown}) {
    v.tokens.push_back({"", 1e9f, type});
  }
  const auto t = v.load();
  CHECK(t->vocab_size() == 264);
  const Ids ids = t->encode("a b", {.add_special = true, .parse_special = true});
  CHECK(t->decode(ids) != "");
  for (int32_t id = 259; id < 264; ++id) {
    CHECK(t->piece(id, true) == "");
    for (const int32_t other : ids) CHECK(other != id);
  }
}

TEST_CASE("vocabulary: tokens end a reply by id or by name") {
  TinyVocabulary v = complete();
  const char* names[] = {"<|im_end|>",    "<|eot_id|>",  "<|end|>", "<|endoftext|>",
                         "<end_of_turn>", "<|eom_id|>",  "<EOT>",   "<|end_of_text|>",
                         "<|im_start|>",  "<|endofturn|"};
  for (const char* name : names) v.tokens.push_back({name, 0, TokenType::kControl});
  v.tokens.push_back({"stop", 0, TokenType::kControl});
  v.tokens.push_back({"halt", 0, TokenType::kControl});
  v.more = [](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.eot_token_id", 269);
    w.add_uint("tokenizer.ggml.eom_token_id", 270);
  };
  const auto t = v.load();
  for (int32_t id = 259; id < 267; ++id) CHECK(t->is_end(id));
  CHECK_FALSE(t->is_end(267));
  CHECK_FALSE(t->is_end(268));
  CHECK(t->is_end(269));
  CHECK(t->is_end(270));
  CHECK(t->is_end(2));
  // A token of that name is a control token whatever the file calls it: text must not produce it.
  for (const TokenType type : {TokenType::kNormal, TokenType::kUserDefined, TokenType::kUnused}) {
    TinyVocabulary named = complete();
    named.tokens.push_back({"<|im_end|>", 100, type});
    const auto tokenizer = named.load();
    CHECK(tokenizer->is_end(259));
    CHECK(tokenizer->is_control(259));
    for (const int32_t id : tokenizer->encode("<|im_end|>", kPlain)) CHECK(id != 259);
    CHECK(tokenizer->encode("<|im_end|>", {.add_special = false, .parse_special = true}) ==
          Ids{259});
  }
}

TEST_CASE("vocabulary: what ends the middle of a text ends a reply") {
  TinyVocabulary v = complete();
  const char* names[] = {"<|fim_pad|>", "<fim-pad>",    "<fim_pad>",     "<PAD>",
                         "[PAD]",       "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                         "<REPO>",      "<reponame>",   "<|file_sep|>",  "\xE2\x96\x81<EOT>"};
  for (const char* name : names) v.tokens.push_back({name, 0, TokenType::kUserDefined});
  v.tokens.push_back({"<|fim_middle|>", 0, TokenType::kUserDefined});
  v.tokens.push_back({"over", 0, TokenType::kControl});
  const auto t = v.load();
  for (int32_t id = 259; id < 271; ++id) CHECK(t->is_end(id));
  CHECK_FALSE(t->is_end(271));
  CHECK_FALSE(t->is_end(272));
  // Prompts for the middle of a text hold them.
  CHECK(t->encode("<|repo_name|>", kPlain) == Ids{265});
  // A key says of its kind what counts, or that nothing does.
  v.more = [](GgufWriter& w) {
    w.add_uint("tokenizer.ggml.fim_pad_token_id", 272);
    w.add_uint("tokenizer.ggml.fim_sep_token_id", 0xFFFFFFFF);
  };
  const auto keyed = v.load();
  for (int32_t id = 259; id < 264; ++id) CHECK_FALSE(keyed->is_end(id));
  for (int32_t id = 264; id < 269; ++id) CHECK(keyed->is_end(id));
  CHECK_FALSE(keyed->is_end(269));
  CHECK(keyed->is_end(272));
}

TEST_CASE("vocabulary: of messages in channels a call and a return end a reply, not <|end|>") {
  for (const bool channels : {false, true}) {
    TinyVocabulary v = complete();
    for (const char* name : {"<|end|>", "<|return|>", "<|call|>", "<|message|>"}) {
      v.tokens.push_back({name, 0, TokenType::kControl});
    }
    if (channels) v.tokens.push_back({"<|channel|>", 0, TokenType::kControl});
    const auto t = v.load();
    CHECK(t->is_end(259) != channels);
    CHECK(t->is_end(260) == channels);
    CHECK(t->is_end(261) == channels);
    CHECK_FALSE(t->is_end(262));
  }
}

TEST_CASE("vocabulary: merging produces no control, unknown or byte tokens") {
  for (const TokenType type : {TokenType::kControl, TokenType::kUnknown, TokenType::kByte}) {
    TinyVocabulary v;
    v.tokens.push_back({"<"});
    v.tokens.push_back({"<0"});
    v.tokens.push_back({"<0x"});
    v.tokens.push_back({"41"});
    v.tokens.push_back({">"});
    v.tokens.push_back({"41>"});
    v.tokens.push_back({"<0x41>", 1000, type});
    const auto t = v.load();
    for (const int32_t id : t->encode("<0x41>", kPlain)) CHECK(id != 9);
  }
}

TEST_CASE("vocabulary: texts that were made to collide are refused, not waited for") {
  // The highest bit of a word passes through the multiplication alone, and its next word undoes it.
  std::vector<std::string> texts;
  for (unsigned n = 0; n < 1024; ++n) {
    std::string text(160, 'a');
    for (unsigned pair = 0; pair < 10; ++pair) {
      if ((n >> pair & 1) == 0) continue;
      text[16 * pair + 7] = static_cast<char>('a' ^ 0x80);
      text[16 * pair + 8 + 3] = static_cast<char>('a' ^ 0x10);
    }
    texts.push_back(text);
  }
  TokenIndex index(texts.size());
  for (int n = 0; n < 1024; ++n) {
    const int32_t placed = index.add(texts[static_cast<size_t>(n)], n);
    CHECK(placed == (n < kMostProbes ? -1 : TokenIndex::kNoPlace));
    CHECK(index.find(texts[static_cast<size_t>(n)]) == (n < kMostProbes ? n : -1));
  }
  TinyVocabulary v = complete();
  for (const std::string& text : texts) v.tokens.push_back({text});
  check_refused(v, {"collides with more than 511 others"});
  v.tokens.resize(259 + 100);
  CHECK_NOTHROW(v.load());
}

TEST_CASE("vocabulary: a control token longer than any is refused, as each place would go along") {
  for (const size_t size : {kMostSpecialBytes, kMostSpecialBytes + 1}) {
    TinyVocabulary v = complete();
    v.tokens.push_back({std::string(size, 'a'), 0, TokenType::kControl});
    if (size == kMostSpecialBytes) {
      CHECK_NOTHROW(v.load());
    } else {
      check_refused(v, {"token 259", "513 bytes", "at most 512"});
    }
    v.tokens.back().type = TokenType::kNormal;
    CHECK_NOTHROW(v.load());
  }
}

TEST_CASE("vocabulary: the token index finds what was added and nothing else") {
  std::vector<std::string> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(std::to_string(i * 7919));
  TokenIndex index(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    CHECK(index.find(texts[i]) == -1);
    CHECK(index.add(texts[i], static_cast<int32_t>(i)) == -1);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    CHECK(index.find(texts[i]) == static_cast<int32_t>(i));
    CHECK(index.add(texts[i], 1) == static_cast<int32_t>(i));
    CHECK(index.find(texts[i] + "x") == -1);
  }
  CHECK(index.find("") == -1);
  CHECK(TokenIndex(0).find("a") == -1);
}

}  // namespace specbound::vocabulary_test
