// What a request says that its replies must be: OpenAI's response_format, and llama.cpp's grammar
// and json_schema.
#pragma once

#include <string>
#include <string_view>

#include "error.h"
#include "grammar/grammar.h"
#include "server/api_error.h"
#include "server/json_body.h"

namespace specbound::server {

// What is asked for, as it stands in the request. Compiling it takes longer than reading it.
struct ResponseFormat {
  std::string field = {};  // that asks for it; empty: anything may be said
  std::string text = {};   // a schema, or GBNF
  bool gbnf = false;

  // Whatever field asks for it.
  bool operator==(const ResponseFormat& other) const {
    return gbnf == other.gbnf && text == other.text;
  }
};

// Of the fields of `body`, its text. Throws ApiError(400) that names the field.
ResponseFormat read_response_format(const Fields& fields, std::string_view body);
// The 400 of a field that asks for what `error` says cannot be: its message begins with the field,
// in place of what it calls the text that the field has.
ApiError format_error(const std::string& field, const Error& error);
// nullptr: anything may be said. Throws ApiError(400) that names the field, and the keyword of a
// schema that is not followed.
Grammar::Shared compiled(const ResponseFormat& format);

}  // namespace specbound::server
