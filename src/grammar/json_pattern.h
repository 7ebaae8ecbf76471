// A regular expression of a JSON schema as a rule: what the texts look like inside their quotes.
// Those that speak of a whole text: ^...$ around literals, classes, groups, alternatives, counts.
#pragma once

#include <string>
#include <string_view>

#include "grammar/json_values.h"

namespace specbound {

// Throws Error(kUsage) for what is no such pattern, Error(kUnsupported) for what is not followed;
// the message begins with what is expected.
GrammarRules::Id json_pattern(std::string_view pattern, JsonValues& values);

// The pattern of texts in a format by name; empty for one that is not known. And the known names.
std::string_view pattern_of_format(std::string_view format);
std::string pattern_formats();

}  // namespace specbound
