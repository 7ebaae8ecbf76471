// How vocabularies of byte-level BPE cut text into words, by the name in tokenizer.ggml.pre. The
// names and their aliases are llama.cpp's; the expressions are those of the pre_tokenizer in the
// models' own tokenizer.json. Where llama.cpp has rewritten an expression, ours is the model's.
//
// The tokenizer.json of some asks for text to be composed first (NFC, nfc.h). GGUF has no key that
// says so, and llama.cpp composes nothing: there text that is not composed gets tokens that the
// model never learnt from. What is a letter is as old as PCRE2's Unicode tables (14 in Debian 12).
#pragma once

#include <span>
#include <string_view>

namespace specbound {

struct PrePattern {
  const char* regex;
  // Matched against bytes, not characters. What stands behind ByteLevel in a tokenizer.json sees
  // text whose bytes have become characters. Only for expressions without \s.
  bool bytes = false;
};

struct PreFamily {
  std::span<const PrePattern> patterns;  // one after the other
  bool ignore_merges;                    // a word that is a token is that token, merges or not
  bool add_bos;                          // where the file does not say
  bool composes = false;                 // likewise; of text between special tokens
};

// Ours, a bool: whether text is composed, as the tokenizer.json says that a file was made of.
constexpr const char* kComposesKey = "tokenizer.specbound.nfc";

// Null for a name that is not known.
const PreFamily* find_pre_family(std::string_view name);

}  // namespace specbound
