// Cuts text into the words that byte-level BPE merges inside of, with the regular expressions of
// pre_patterns.h through PCRE2 (UTF and Unicode properties, JIT code where the system allows it).
//
// Several expressions work one after the other, each on every part that the one before left, as
// HF tokenizers' Sequence of Split (Isolated) pre-tokenizers does: what an expression matches is a
// part, and so is what lies between two matches.
//
// Both references turn bytes that are no UTF-8 into U+FFFD, which loses them. Here a stretch of
// such bytes is a word of its own, and the text on either side is cut as if the other were absent.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/pre_patterns.h"

namespace specbound {

class PreTokenizer {
 public:
  explicit PreTokenizer(std::span<const PrePattern> patterns);
  ~PreTokenizer();

  // Calls `word` with one piece of the text after the other; joined they are the text. Any bytes.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  struct Regex;
  struct Cutter;  // the working memory of one split()
  std::vector<std::unique_ptr<Regex>> steps_;
};

}  // namespace specbound
