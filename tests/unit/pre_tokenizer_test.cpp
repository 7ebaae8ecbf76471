// How text is cut into words, family by family, against HF tokenizers (golden/make_pre_golden.py),
// and what becomes of text that is no UTF-8.
#include "text/pre_tokenizer.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/pre_patterns.h"
#include "tiny_bpe.h"
#include "tokenizer_vectors.h"

namespace specbound::pre_tokenizer_test {

namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const Json& golden() {
  static const Json json = Json::parse(test::read_file(SPECBOUND_GOLDEN "/pre_golden.json"));
  return json;
}

Words split(const PreTokenizer& tokenizer, std::string_view text) {
  Words out;
  tokenizer.split(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

Words split(std::string_view name, std::string_view text) {
  const PreFamily* family = find_pre_family(name);
  REQUIRE(family);
  return split(PreTokenizer(family->patterns), text);
}

}  // namespace

TEST_CASE("pre-tokenizer: words as HF tokenizers cuts them") {
  const auto texts = golden().at("texts").get<std::vector<std::string>>();
  CHECK(golden().at("families").size() == 18);
  for (const auto& item : golden().at("families").items()) {
    const std::string name = item.key();
    CAPTURE(name);
    const PreFamily* family = find_pre_family(name);
    REQUIRE(family);
    const PreTokenizer tokenizer(family->patterns);
    const auto words = item.value().at("words").get<std::vector<std::vector<size_t>>>();
    REQUIRE(words.size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      std::vector<size_t> sizes;
      std::string joined;
      for (const std::string& word : split(tokenizer, texts[i])) {
        sizes.push_back(word.size());
        joined += word;
      }
      CHECK(sizes == words[i]);
      CHECK(joined == texts[i]);
    }
  }
}

TEST_CASE("pre-tokenizer: ids as HF tokenizers makes them") {
  const auto texts = golden().at("texts").get<std::vector<std::string>>();
  test::TinyBpe v;
  v.tokens = golden().at("tokens").get<std::vector<std::string>>();
  v.merges = golden().at("merges").get<std::vector<std::string>>();
  v.more = [](GgufWriter& w) { w.add_bool(kComposesKey, false); };  // no normalizer made these
  for (const auto& item : golden().at("families").items()) {
    v.pre = item.key();
    CAPTURE(v.pre);
    const auto tokenizer = v.load();
    const auto ids = item.value().at("ids").get<std::vector<std::vector<int32_t>>>();
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      CHECK(tokenizer->encode(texts[i], test::kPlain) == ids[i]);
      CHECK(tokenizer->decode(ids[i]) == texts[i]);
    }
  }
}

TEST_CASE("pre-tokenizer: other names for the same") {
  const auto same = [](std::string_view a, std::string_view b) {
    const PreFamily* family = find_pre_family(a);
    REQUIRE(family);
    CHECK(family->patterns.data() == find_pre_family(b)->patterns.data());
  };
  for (const char* name : {"llama3", "llama-v3", "falcon3", "pixtral"}) same(name, "llama-bpe");
  for (const char* name : {"deepseek-r1-qwen", "megrez", "stablelm2"}) same(name, "qwen2");
  for (const char* name : {"mpt", "phi-2", "olmo", "roberta-bpe", "jina-de"}) same(name, "gpt-2");
  for (const char* name : {"refact", "command-r", "smollm", "codeshell"}) same(name, "starcoder");
  same("llama4", "gpt-4o");
  CHECK(find_pre_family("llama-bpe")->ignore_merges);
  CHECK(find_pre_family("llama-bpe")->add_bos);
  CHECK(find_pre_family("tekken")->add_bos);
  CHECK(find_pre_family("smaug-bpe")->ignore_merges);
  CHECK_FALSE(find_pre_family("smaug-bpe")->add_bos);
  CHECK_FALSE(find_pre_family("dbrx")->ignore_merges);
  CHECK_FALSE(find_pre_family("qwen2")->add_bos);
  for (const char* name : {"qwen2", "qwen35", "mpt", "command-r"}) {
    CHECK(find_pre_family(name)->composes);
  }
  for (const char* name : {"deepseek-r1-qwen", "gpt-2", "starcoder", "llama-bpe"}) {
    CHECK_FALSE(find_pre_family(name)->composes);
  }
  for (const char* name : {"", "gpt2", "Llama-bpe", "llama-bpe ", "gemma4"}) {
    CHECK(find_pre_family(name) == nullptr);
  }
}

TEST_CASE("pre-tokenizer: bytes that are no UTF-8 are words of their own") {
  CHECK(split("gpt-2",
              "a\xFF\xFE"
              "b") == Words{"a", "\xFF\xFE", "b"});
  CHECK(split("gpt-2", "a \xC3 b") == Words{"a", " ", "\xC3", " b"});
  CHECK(split("gpt-2", "\xE6\x88") == Words{"\xE6\x88"});
  CHECK(split("gpt-2", "\xED\xA0\x80x") == Words{"\xED\xA0\x80", "x"});  // a surrogate
  CHECK(split("gpt-2", "\xC0\x80 \xF4\x90\x80\x80") == Words{"\xC0\x80", " ", "\xF4\x90\x80\x80"});
  // Each side is cut as the end, or the start, of a text.
  CHECK(split("llama-bpe", "a  \xFF b") == Words{"a", "  ", "\xFF", " b"});
  CHECK(split("gpt-2", "").empty());
  const PreTokenizer falcon(find_pre_family("falcon")->patterns);
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    std::string text, joined;
    for (size_t n = random() % 40; n > 0; --n) {
      text += static_cast<char>(random() % 3 ? random() : 0x20 + random() % 0x30);
    }
    for (const std::string& word : split(falcon, text)) {
      CHECK_FALSE(word.empty());
      joined += word;
    }
    CHECK(joined == text);
  }
}

}  // namespace specbound::pre_tokenizer_test
