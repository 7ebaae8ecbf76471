#include "corpus/seed_prompts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "text/utf8.h"

using namespace specbound;

TEST_CASE("built-in requests are many, whole and each another") {
  const Corpus corpus = seed_prompts(true);
  CHECK(corpus.texts.size() >= 1500);
  CHECK(corpus.dialogues == std::ssize(corpus.texts));
  CHECK(corpus.hash == seed_prompts(false).hash);
  std::set<std::string> seen;
  size_t longest = 0;
  for (const CorpusText& text : corpus.texts) {
    REQUIRE(text.messages.size() == 2);
    const std::string& request = text.messages[0].content;
    CAPTURE(request);
    CHECK(text.messages[0].role == ChatMessage::Role::kUser);
    CHECK(text.messages[1].role == ChatMessage::Role::kAssistant);
    CHECK(text.messages[1].content.empty());
    CHECK(request.size() >= 3);
    CHECK(request.find("{}") == std::string::npos);
    CHECK(request.find('%') == std::string::npos);
    CHECK(is_utf8(request));
    CHECK(seen.insert(request).second);
    longest = std::max(longest, request.size());
  }
  CHECK(longest > 500);  // passages are in it
  const Corpus plain = seed_prompts(false);
  CHECK(plain.dialogues == 0);
  REQUIRE(plain.texts.size() == corpus.texts.size());
  CHECK(plain.texts[7].messages.empty());
  CHECK(plain.texts[7].text == corpus.texts[7].messages[0].content);
}
