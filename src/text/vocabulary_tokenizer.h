// What the tokenizers share that have a Vocabulary: its special ids, and the way special tokens are
// cut out of text before anything else looks at it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace specbound {

class VocabularyTokenizer : public Tokenizer {
 public:
  int vocab_size() const final { return vocabulary_.size(); }
  int32_t bos() const final { return vocabulary_.bos; }
  int32_t eos() const final { return vocabulary_.eos; }
  bool add_bos() const final { return vocabulary_.add_bos; }
  bool is_end(int32_t id) const final { return vocabulary_.contains(id) && vocabulary_.ends[id]; }
  bool is_control(int32_t id) const final {
    return vocabulary_.contains(id) && vocabulary_.types[id] == TokenType::kControl;
  }

 private:
  static bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

 protected:
  // Where a part of a text stands: at its start, behind a special token, or behind a cut.
  enum class Place { kStart, kBehindSpecial, kBehindCut };

  explicit VocabularyTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
    notes_ = std::move(vocabulary_.notes);
  }

  // BOS, the text around its special tokens, EOS. `encode_text(part, place, ids)` appends the ids
  // of a part, never empty.
  template <typename EncodeText>
  std::vector<int32_t> encode_around_specials(std::string_view text, EncodeOptions options,
                                              EncodeText&& encode_text) const {
    std::vector<int32_t> ids;
    if (options.add_special && vocabulary_.add_bos) ids.push_back(vocabulary_.bos);
    std::span<const size_t> cuts;
    if (options.origin) cuts = options.origin->cuts;
    Place place = Place::kStart;
    for (size_t from = 0; from < text.size();) {
      while (!cuts.empty() && cuts.front() <= from) cuts = cuts.subspan(1);
      const std::string_view whole = cuts.empty() ? text : text.substr(0, cuts.front());
      const auto match =
          vocabulary_.specials.find(whole, from, options.parse_special, options.origin);
      const size_t end = match ? match->position : whole.size();
      if (end > from) encode_text(text.substr(from, end - from), place, ids);
      place = match ? Place::kBehindSpecial : Place::kBehindCut;
      from = end;
      if (!match) continue;
      ids.push_back(match->id);
      from += match->size;
      if (vocabulary_.strips_white_space &&
          strips_white_space_behind(vocabulary_.texts[match->id])) {
        while (from < text.size() && is_white(text[from])) ++from;
      }
    }
    if (options.add_special && vocabulary_.add_eos) ids.push_back(vocabulary_.eos);
    return ids;
  }

  [[noreturn]] static void no_token_for(unsigned char byte) {
    throw Error(ErrorCode::kUnsupported,
                format("the text holds byte 0x%02X, for which the model's vocabulary has neither a "
                       "token nor an unknown token: leave it out",
                       byte));
  }

  // The bytes of a token that stands for its text as it is written, or for none; nullopt where its
  // text is spelled in the vocabulary's own way. A model may have more rows than its vocabulary has
  // tokens: what it says there has no text.
  std::optional<std::string> plain_piece(int32_t id, bool special) const {
    if (!vocabulary_.contains(id)) return "";
    const std::string_view text = vocabulary_.texts[id];
    switch (vocabulary_.types[id]) {
      case TokenType::kControl:
      case TokenType::kUnknown:
        return special ? std::string(text) : "";
      case TokenType::kUserDefined:
        return std::string(text);
      case TokenType::kNormal:
      case TokenType::kUnused:
      case TokenType::kByte:
        break;
    }
    return std::nullopt;
  }

  Vocabulary vocabulary_;
};

}  // namespace specbound
