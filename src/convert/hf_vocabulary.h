// A vocabulary as GGUF stores it, while it is put together from the files of a Hugging Face model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/gguf_writer.h"
#include "text/vocabulary.h"

namespace specbound {

struct HfVocabulary {
  struct Token {
    std::string text;
    float score;  // only where merging goes by scores
    TokenType type;
  };
  std::string model;  // tokenizer.ggml.model: "llama" (merges by score) or "gpt2" (by rank)
  std::string pre;    // tokenizer.ggml.pre
  std::vector<Token> tokens;
  std::vector<std::string> merges;  // "left right", by rank; gpt2 only
  std::optional<uint32_t> bos, eos, unknown, padding, eot, eom;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::optional<bool> composes;    // text, before it is cut; gpt2 only
  bool space_at_start = false;     // add_space_prefix means the text's start alone; llama only
  std::string chat_template;       // empty: none
  std::string tool_template;       // of conversations with tools, beside it; empty: none
  std::vector<std::string> notes;  // what the files ask for and GGUF cannot say
};

// The keys "tokenizer.*".
void add_vocabulary_keys(const HfVocabulary& vocabulary, GgufWriter& writer);

}  // namespace specbound
