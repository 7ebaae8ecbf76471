// What the built-in requests are about: texts to be summed up and asked about, code to be read and
// sentences to be translated, of our own writing. People and towns in them are mostly invented.
#pragma once

#include <span>

namespace specbound {

using SeedTexts = std::span<const char* const>;

// What a search finds, numbered, and what is asked of it: the last question has no answer there.
struct SeedSources {
  const char* text;
  const char* questions[3];
};

struct SeedSentences {
  const char* language;
  SeedTexts sentences;
};

extern const SeedTexts kSeedPassages;                        // of 50 to 110 words
extern const std::span<const SeedSources> kSeedSources;      // four to six in each text
extern const SeedTexts kSeedSnippets;                        // of code, some with a bug
extern const std::span<const SeedSentences> kSeedSentences;  // to be translated into English
extern const SeedTexts kSeedEnglish;                         // sentences, to be translated from it

}  // namespace specbound
