// SentencePiece's BPE ("llama" in tokenizer.ggml.model): text is cut into characters, then the
// adjacent pair whose joined text is the token of the highest score is merged, the leftmost of
// equals, until no pair is a token. Spaces are U+2581 inside; a character that is no token becomes
// its bytes <0xXX>.
//
// Like libsentencepiece, and unlike llama.cpp, merging never produces control, unknown or byte
// tokens, unused tokens are taken apart again, and a byte that starts no UTF-8 character stands
// alone. Like llama.cpp, special tokens are cut out of the text first and the space in front of the
// text is put behind each of them too, unless the file says otherwise (kSpaceAtStartKey). Of
// special tokens that overlap in the text, the leftmost longest counts.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "text/vocabulary_tokenizer.h"

namespace specbound {

// bool: the space in front of the text stands there alone, and only where the text has none there
// itself, as HF tokenizers' Metaspace has it whose prepend_scheme is "first". GGUF has no key for
// that; `convert` writes this one, and other programs put a space behind special tokens too.
constexpr const char* kSpaceAtStartKey = "tokenizer.specbound.space_at_start";

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  // Throws Error(kFormat).
  explicit SpmTokenizer(const Gguf& gguf);

  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const override;
  std::string piece(int32_t id, bool special = false) const override;
  std::string decode(std::span<const int32_t> ids, bool special = false) const override;

 private:
  struct Merger;  // the working memory of one encode()

  void read_scores(const Gguf& gguf);
  void find_bytes(const Gguf& gguf);
  void find_joins();
  int32_t mergeable(std::string_view text) const;  // -1: no token that merging may produce
  bool gets_space(std::string_view text, Place place) const;
  void encode_text(std::string_view text, Place place, Merger& merger,
                   std::vector<int32_t>& ids) const;

  bool add_space_prefix_ = true;
  bool space_at_start_ = false;
  std::vector<uint32_t> ranks_;          // [vocab_size] of the score: 0 is the highest
  std::array<int32_t, 256> byte_ids_{};  // -1 where the vocabulary has no such byte
  size_t max_size_ = 0;                  // bytes of the longest mergeable token
  // [last byte of a character][first byte of the next]: some mergeable token holds such neighbours.
  // Where none does, no merge crosses, and the text can be cut into short runs. U+2581 counts as
  // 0xFF.
  std::bitset<256 * 256> joins_;
};

}  // namespace specbound
