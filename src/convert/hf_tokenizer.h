// The tokenizer of a Hugging Face model directory as a GGUF vocabulary: tokenizer.json where it is
// byte-level BPE, else tokenizer.model (SentencePiece), else tokenizer.json with byte fallback;
// with the tokens that were added to it, its special tokens and its chat template.
//
// As llama.cpp's convert_hf_to_gguf.py: added tokens are control tokens when they are special or
// look it, else user-defined, matched whole in text; rows of the embedding that no token has get
// unused ones, "[PADn]". Unlike it, user-defined pieces of a SentencePiece model stay that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convert/hf_files.h"
#include "convert/hf_vocabulary.h"

namespace specbound {

// `n_rows`: tokens that the model has, 1 or more. `pre`: what tokenizer.ggml.pre is to say,
// instead of what is found; for byte-level BPE. `strips`: readers will drop white space behind
// special tokens (text/vocabulary.h), so that a note is due where these do not ask for it.
// Throws Error(kFile | kFormat | kUnsupported | kLimit | kUsage).
HfVocabulary read_hf_tokenizer(const HfFiles& files, uint64_t n_rows,
                               const std::optional<std::string>& pre, bool strips);

// Whether added tokens drop the white space behind them in text.
bool strips_white_space(const HfFiles& files);

}  // namespace specbound
