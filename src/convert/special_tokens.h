// Which tokens of a Hugging Face model have a part to play (BOS, EOS, ...), whether text gets them
// in front and behind, and the chat template: tokenizer_config.json, special_tokens_map.json, the
// post_processor of tokenizer.json, config.json and generation_config.json, in the order in which
// the `gguf` package's SpecialVocab believes them; but chat_template.jinja counts more than the
// template in tokenizer_config.json, as transformers has it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "convert/hf_files.h"
#include "convert/hf_vocabulary.h"

namespace specbound {

// The id of the token with this text; nullopt: none.
using FindToken = std::function<std::optional<uint32_t>(const std::string& text)>;

// Texts that the files call special.
std::set<std::string> special_texts(const HfFiles& files);

// Sets the ids, add_bos, add_eos and chat_template of `vocabulary`, whose tokens are complete. Ids
// that are set already hold where the files name none. Throws Error(kFile | kFormat | kUnsupported
// | kLimit).
void read_special_tokens(const HfFiles& files, const FindToken& find, HfVocabulary& vocabulary);

}  // namespace specbound
