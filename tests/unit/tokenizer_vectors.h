// What the tests of tokenizers share: published vectors, and texts to measure the time with.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <ctime>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "read_file.h"
#include "text/tokenizer.h"

namespace specbound::test {

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};

struct TokenizerVector {
  std::string text;
  std::vector<int32_t> ids;
};

// Texts of PATH.inp with the ids of PATH.out.
inline std::vector<TokenizerVector> tokenizer_vectors(const std::string& path) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string input = read_file(path + ".inp");
  std::istringstream output(read_file(path + ".out"));
  std::vector<TokenizerVector> out;
  size_t begin = 0;
  for (size_t end; (end = input.find(separator, begin)) != input.npos;
       begin = end + separator.size()) {
    TokenizerVector v{input.substr(begin, end - begin), {}};
    std::string line;
    REQUIRE(std::getline(output, line).good());
    std::istringstream numbers(line);
    for (int32_t id; numbers >> id;) v.ids.push_back(id);
    out.push_back(v);
  }
  std::string rest;
  CHECK_FALSE(std::getline(output, rest));
  return out;
}

// The time bound says something about Release builds; others make do with less text.
#if defined(SPECBOUND_SANITIZED) || !defined(NDEBUG)
constexpr bool kBounded = false;
#else
constexpr bool kBounded = true;
#endif

// So much of each kind of text that a tokenizer may find hard; less where time says nothing.
inline std::vector<std::pair<std::string, std::string>> long_texts(size_t size) {
  if (!kBounded) size /= 16;
  const auto repeat = [size](std::string_view part) {
    std::string out;
    while (out.size() < size) out += part;
    return out.substr(0, size);
  };
  std::string noise;
  std::mt19937 random(3);
  while (noise.size() < size) noise += static_cast<char>(random());
  std::string letters;
  while (letters.size() < size) letters += static_cast<char>('a' + random() % 26);
  return {
      {"prose", repeat(read_file(SPECBOUND_TEST_DATA "/dialogue-valid/dialogue-valid.jsonl"))},
      {"a", repeat("a")},
      {"A", repeat("A")},
      {"digits", repeat("7")},
      {"spaces", repeat(" ")},
      {"spaces, then a letter", repeat(" ") + "a"},
      {"spaces, then a digit", repeat(" ") + "1"},
      {"newlines", repeat("\n")},
      {"lines of a space", repeat(" \n")},
      {"emoji", repeat("\xF0\x9F\xA6\x99")},
      {"CJK", repeat("\xE6\x88\x91\xE6\x83\xB3\xE5\x9C\xA8")},
      {"combining marks", repeat("\xCC\x81")},
      {"control characters", repeat("\x01")},
      {"ab", repeat("ab")},
      {"letters", letters},
      {"noise", noise},
      {"bytes that are no UTF-8", repeat("\xFF")},
      {"=", repeat("=")},
      {"'", repeat("'")},
      {"<", repeat("<|")},
  };
}

// Every text comes back, and where time says something, a megabyte takes less than a second of CPU
// time.
inline void check_long_texts(const Tokenizer& tokenizer,
                             const std::vector<std::pair<std::string, std::string>>& texts) {
  for (const auto& pair : texts) {
    const std::string& kind = pair.first;
    const std::string& text = pair.second;
    CAPTURE(kind);
    const std::clock_t start = std::clock();
    const std::vector<int32_t> ids = tokenizer.encode(text, kParse);
    const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    CAPTURE(seconds);
    CAPTURE(ids.size());
    if (kBounded) CHECK(seconds < 1e-6 * static_cast<double>(text.size()));
    CHECK(tokenizer.decode(ids) == text);
  }
}

}  // namespace specbound::test
