// How the pre_tokenizer of a tokenizer.json is called in GGUF: the first name of tokenizer.ggml.pre
// whose expressions (text/pre_patterns.h) are those of the file.
#pragma once

#include <string>

#include "json/json_reader.h"

namespace specbound {

// `pre_tokenizer`: a ByteLevel step, alone or behind Split and Digits steps. Throws
// Error(kUnsupported) for one that has no name, naming its expressions.
std::string pre_tokenizer_name(const JsonObject& pre_tokenizer, bool ignore_merges);

// Whether a step of it, or it itself, is of this type.
bool has_step(const JsonObject& pre_tokenizer, const std::string& type);

}  // namespace specbound
