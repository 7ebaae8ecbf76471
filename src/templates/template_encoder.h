// A rendered conversation into ids: control tokens where the template wrote them, text elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/text.h"
#include "text/tokenizer.h"

namespace specbound {

// Bytes of the bracketed stretch that `text` begins with: <...>, [...] or ]...[ is how templates
// spell control tokens. 0 if there is none.
size_t bracketed(std::string_view text);

// The id of the token whose text this is; -1 if there is none.
int32_t token_of(const Tokenizer& tokenizer, const std::string& text);

// The ids that the tokenizer has for the whole text with control tokens parsed, but for those that
// hold a byte of a message: so the training text was encoded, and what a tokenizer does at control
// tokens (a space put there, white space dropped) happens here too. From this follows that the ids
// of a conversation with a finished turn begin those of every longer one, where the template
// renders old turns as it did when they were new. The ids the model generated need not be those of
// the reply's text: a caller that wants to go on from them keeps them. `marks`: the template's
// bracketed stretches.
std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const std::set<std::string>& marks,
                                     const jinja::Text& text);

}  // namespace specbound
