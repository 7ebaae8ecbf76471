// What a request says that its replies must be: OpenAI's response_format, and llama.cpp's grammar
// and json_schema.
#pragma once

#include <string_view>

#include "grammar/grammar.h"
#include "server/json_body.h"

namespace specbound::server {

// Of the fields of `body`, its text; nullptr: anything may be said. Throws ApiError(400) that names
// the field, and the keyword of a schema that is not followed.
Grammar::Shared read_response_format(const Fields& fields, std::string_view body);

}  // namespace specbound::server
