// Byte-level BPE ("gpt2" in tokenizer.ggml.model): text is cut into words (pre_tokenizer.h), each
// word into its bytes, and of the adjacent pairs the one that was learned first is merged, the
// leftmost of equals, until no pair is a merge. Token texts spell each byte as one character
// (GPT-2, bytes_to_unicode): printable Latin-1 as itself, the other 68 bytes as U+0100 to U+0143.
//
// Like HF tokenizers, the pre-tokenizer is the model's own (pre_patterns.h), and text is composed
// where it asks for that (nfc.h). Like both references, special tokens are cut out of the text
// first. Unlike both, bytes that are no UTF-8 stay what they are, and merging never produces
// control or unknown tokens: what a user types stays text.
//
// A vocabulary may lack bytes. Where it has no unknown token either, one that occurs in no UTF-8
// (DeepSeek's lack those) is read as U+FFFD, and text with another (Falcon's lack some) is refused.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "text/merges.h"
#include "text/pre_patterns.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary_tokenizer.h"

namespace specbound {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  // Throws Error(kFormat); Error(kUnsupported) for a tokenizer.ggml.pre that is not known.
  explicit BpeTokenizer(const Gguf& gguf);

  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const override;
  std::string piece(int32_t id, bool special = false) const override;
  std::string decode(std::span<const int32_t> ids, bool special = false) const override;

 private:
  BpeTokenizer(const Gguf& gguf, const PreFamily& family);

  void find_bytes();
  int32_t whole_word(std::string_view word) const;  // -1: no token that text may produce
  void encode_word(std::string_view word, MergeRun& run, std::vector<int32_t>& ids) const;

  PreTokenizer pre_tokenizer_;
  MergePairs merges_;
  bool ignore_merges_;
  bool composes_;
  size_t max_size_ = 0;                  // bytes of the longest token text
  std::array<int32_t, 256> byte_ids_{};  // -1 where the vocabulary has no such byte
};

}  // namespace specbound
