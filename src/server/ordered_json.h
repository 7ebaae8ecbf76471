// JSON whose keys keep their order, for what templates write: tool schemas and the arguments of
// calls. Other bodies are read by json_body.h, which looks up keys faster.
#pragma once

#include <string>
#include <string_view>

#include "jinja/chat_value.h"

namespace specbound::server {

// `json` is JSON that parse_json() or parse_body() took. Of a repeated key the last value counts,
// in the place of the first. A whole number above 64 bits becomes the nearest double.
ChatValue ordered_value(std::string_view json);
std::string json_of(const ChatValue& value);  // on one line

}  // namespace specbound::server
