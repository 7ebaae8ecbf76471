#include "corpus/seed_prompts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "corpus/seed_texts.h"
#include "text/utf8.h"

using namespace specbound;

namespace {

bool holds_one(std::string_view request, SeedTexts texts) {
  return std::ranges::any_of(
      texts, [&](const char* text) { return request.find(text) != std::string_view::npos; });
}

}  // namespace

TEST_CASE("built-in requests are many, whole and each another") {
  const Corpus corpus = seed_prompts(true);
  CHECK(corpus.texts.size() >= 2300);
  CHECK(corpus.dialogues == std::ssize(corpus.texts));
  CHECK(corpus.hash == seed_prompts(false).hash);
  std::set<std::string> seen;
  for (const CorpusText& text : corpus.texts) {
    REQUIRE(text.messages.size() == 2);
    const std::string& request = text.messages[0].content;
    CAPTURE(request);
    CHECK(text.messages[0].role == ChatMessage::Role::kUser);
    CHECK(text.messages[1].role == ChatMessage::Role::kAssistant);
    CHECK(text.messages[1].content.empty());
    CHECK(request.size() >= 3);
    CHECK(request.size() < 2000);
    if (!holds_one(request, kSeedSnippets)) {  // where these may stand
      CHECK(request.find("{}") == std::string::npos);
      CHECK(request.find('%') == std::string::npos);
    }
    CHECK(is_utf8(request));
    CHECK(seen.insert(request).second);
  }
  const Corpus plain = seed_prompts(false);
  CHECK(plain.dialogues == 0);
  REQUIRE(plain.texts.size() == corpus.texts.size());
  CHECK(plain.texts[7].messages.empty());
  CHECK(plain.texts[7].text == corpus.texts[7].messages[0].content);
}

TEST_CASE("built-in requests use every text, and no kind of text too often") {
  const Corpus corpus = seed_prompts(false);
  const auto requests_with = [&](std::string_view part) {
    return std::ranges::count_if(corpus.texts, [&](const CorpusText& text) {
      return text.text.find(part) != std::string::npos;
    });
  };
  const auto check = [&](SeedTexts texts, int least, int most) {
    for (const char* text : texts) {
      CAPTURE(text);
      CHECK(requests_with(text) >= least);
      CHECK(requests_with(text) <= most);
    }
  };
  CHECK(kSeedPassages.size() + kSeedSources.size() >= 40);
  check(kSeedPassages, 9, 11);
  check(kSeedSnippets, 6, 6);
  for (const SeedSources& sources : kSeedSources) {
    CHECK(requests_with(sources.text) == 9);
    check(sources.questions, 3, 3);
  }
  for (const SeedSentences& from : kSeedSentences) check(from.sentences, 1, 2);
  check(kSeedEnglish, 1, 2);
}
