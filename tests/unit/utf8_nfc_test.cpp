// Canonical composition against what the `tokenizers` library makes of the same texts, and of what
// is no text; and which vocabularies compose what they read.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/nfc.h"
#include "text/pre_patterns.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "tiny_bpe.h"
#include "tokenizer_vectors.h"

namespace specbound::nfc_test {

TEST_CASE("utf8: texts are composed as HF tokenizers composes them") {
  std::ifstream file(std::string(SPECBOUND_GOLDEN) + "/nfc_golden.json");
  REQUIRE(file);
  const nlohmann::json pairs = nlohmann::json::parse(file);
  CHECK(pairs.size() > 3000);
  for (const nlohmann::json& pair : pairs) {
    const auto text = pair[0].get<std::string>(), whole = pair[1].get<std::string>();
    CAPTURE(text);
    CHECK(composed(text) == whole);
    CHECK(composed(whole) == whole);
    CHECK(composed("x" + text + "\n") == composed("x" + text) + "\n");
  }
}

TEST_CASE("utf8: what is no text stays as it is when text is composed") {
  for (const std::string text : {"", "e\xCC", "e\xCC\xFF\x81", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                 "\xC0\x81", "e\xFF\xCC\x81"}) {
    CHECK(composed(text) == text);
  }
  CHECK(composed("e\xCC\x81\xFFo\xCC\x88") == "\xC3\xA9\xFF\xC3\xB6");
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (unsigned n = random() % 30; n > 0; --n) text += static_cast<char>(random());
    const std::string once = composed(text);
    CHECK(composed(once) == once);
    CHECK(is_utf8(once) == is_utf8(text));
  }
}

TEST_CASE("tokenizer: text is composed where the vocabulary asks for it, special tokens are not") {
  test::TinyBpe v;
  v.add_bytes();
  const int32_t accented = v.add_merge("\xC3\x83", "\xC2\xA9");  // the two bytes of U+00E9
  const std::string cut = "e\xCC\x81";
  const int32_t special = v.add("<e\xCC\x81>", TokenType::kControl);
  using Ids = std::vector<int32_t>;
  const Ids whole = {accented}, apart = {'e', 0xCC, 0x81};
  const auto encoded = [&](const std::string& text) {
    return v.load()->encode(text, test::kParse);
  };
  v.pre = "gpt-2";
  CHECK(encoded(cut) == apart);
  CHECK(encoded("\xC3\xA9") == whole);
  for (const char* family : {"qwen2", "mpt", "command-r", "qwen35"}) {
    v.pre = family;
    CHECK(encoded(cut) == whole);
    CHECK(encoded("<e\xCC\x81>" + cut) == Ids{special, accented});
  }
  // What the file says of itself comes first.
  for (const bool composes : {true, false}) {
    v.more = [composes](GgufWriter& w) { w.add_bool(kComposesKey, composes); };
    for (const char* family : {"gpt-2", "qwen2"}) {
      v.pre = family;
      CHECK(encoded(cut) == (composes ? whole : apart));
    }
  }
}

}  // namespace specbound::nfc_test
