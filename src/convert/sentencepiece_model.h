// tokenizer.model: a SentencePiece model, the protobuf message ModelProto of google/sentencepiece
// (sentencepiece_model.proto), read by hand:
//
//   1 pieces, repeated { 1 piece: string, 2 score: float, 3 type: 1 normal .. 6 byte }
//   2 trainer_spec    { 3 model_type: 1 unigram, 2 BPE, ..; 24 treat_whitespace_as_suffix;
//                       40 unk_id, 41 bos_id, 42 eos_id, 43 pad_id }
//   3 normalizer_spec { 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
//                       5 escape_whitespaces }
//
// Fields that play no part are stepped over; lengths are checked against the bytes that are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/vocabulary.h"

namespace specbound {

struct SentencePieceModel {
  struct Piece {
    std::string text;  // UTF-8
    float score;       // finite
    TokenType type;    // the format's numbers are GGUF's
  };
  std::vector<Piece> pieces;
  bool add_dummy_prefix = true;
  // Text is changed before it is cut, which no GGUF file can ask for.
  bool normalizes = false;
  int32_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;  // -1: none
};

// Throws Error(kFormat) for what is no such message, Error(kUnsupported) for models that are not
// BPE. `name` stands for the file.
SentencePieceModel read_sentencepiece(std::span<const std::byte> bytes, const std::string& name);

}  // namespace specbound
