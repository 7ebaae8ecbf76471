// The bounds that a JSON schema sets: how long texts and lists are, and between what numbers lie.
// All throw Error naming keyword and place: for what is no bound, one too far out, and bounds that
// nothing lies between.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "grammar/json_values.h"
#include "grammar/schema_merge.h"

namespace specbound {

// What the keywords `least` and `most` count; the second may be GrammarRules::kUnbounded.
std::pair<int, int> length_bounds(const Schema& schema, const char* least, const char* most,
                                  const std::string& place);

// The least integer and the most; nullopt: any.
std::optional<std::pair<int64_t, int64_t>> integer_bounds(const Schema& schema,
                                                          const std::string& place);

// nullopt: any number. That some number lies between is for JsonValues::number() to find out.
std::optional<JsonValues::Bounds> number_bounds(const Schema& schema, const std::string& place);

[[noreturn]] void refuse_empty_range(const std::string& place);

}  // namespace specbound
