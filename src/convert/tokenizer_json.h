// The model of a tokenizer.json: a vocabulary of BPE, of one of two kinds.
//
//   byte-level     words are cut first (text/pre_patterns.h), then bytes merged by rank: "gpt2"
//   byte fallback  as SentencePiece has it, spaces spelled U+2581 and text merged as one: "llama".
//                  GGUF merges these by score, which is made of the rank: the token of the first
//                  merge has the highest. Where every way to put a token together is a merge, as in
//                  files that come from SentencePiece models, the result is the same; a note says
//                  so where it is not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convert/hf_vocabulary.h"
#include "json/json_reader.h"

namespace specbound {

// Whether a tokenizer.json is there and of the byte-level kind.
bool is_byte_level(const JsonObject& tokenizer);

// Whether of the parts of a text between special tokens only one at the text's start gets a space
// in front.
bool spaces_start_alone(const JsonObject& tokenizer);

// The base vocabulary into `out` (model, pre, tokens, merges, add_space_prefix): ids become
// positions, ids that no token has become tokens without text. `pre`: the name to take instead of
// looking for one. Throws Error(kFormat | kUnsupported), Error(kLimit) for ids of n_rows or more.
void read_byte_level(const JsonObject& tokenizer, const std::optional<std::string>& pre,
                     uint64_t n_rows, HfVocabulary& out);
void read_byte_fallback(const JsonObject& tokenizer, uint64_t n_rows, HfVocabulary& out);

}  // namespace specbound
