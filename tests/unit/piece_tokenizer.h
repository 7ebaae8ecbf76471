// A vocabulary of given pieces, for what only asks which token writes what.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/token_trie.h"
#include "text/tokenizer.h"

namespace specbound::test {

class PieceTokenizer final : public Tokenizer {
 public:
  struct Piece {
    std::string text;
    bool control = false, end = false;
  };
  explicit PieceTokenizer(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  std::vector<int32_t> encode(std::string_view, EncodeOptions) const override { return {}; }
  std::string piece(int32_t id, bool special) const override {
    const Piece& p = pieces_[static_cast<size_t>(id)];
    return p.control && !special ? "" : p.text;
  }
  std::string decode(std::span<const int32_t> ids, bool special) const override {
    std::string text;
    for (const int32_t id : ids) text += piece(id, special);
    return text;
  }
  int vocab_size() const override { return static_cast<int>(pieces_.size()); }
  int32_t bos() const override { return -1; }
  int32_t eos() const override { return -1; }
  bool add_bos() const override { return false; }
  bool is_end(int32_t id) const override { return pieces_[static_cast<size_t>(id)].end; }
  bool is_control(int32_t id) const override { return pieces_[static_cast<size_t>(id)].control; }

 private:
  std::vector<Piece> pieces_;
};

// The 256 bytes, and behind them these pieces.
inline std::vector<PieceTokenizer::Piece> byte_pieces(std::vector<PieceTokenizer::Piece> more) {
  std::vector<PieceTokenizer::Piece> pieces;
  for (int byte = 0; byte < 256; ++byte)
    pieces.push_back({std::string(1, static_cast<char>(byte))});
  pieces.insert(pieces.end(), more.begin(), more.end());
  return pieces;
}

inline std::shared_ptr<const TokenTrie> trie_of(const Tokenizer& tokenizer) {
  return std::make_shared<const TokenTrie>(tokenizer,
                                           [&](int32_t id) { return tokenizer.is_end(id); });
}

}  // namespace specbound::test
