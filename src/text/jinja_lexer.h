// Cuts a Jinja template into text and the tokens inside its tags, with white space cut as the
// settings of chat templates have it: trim_blocks (a line end behind {% %} and {# #} goes) and
// lstrip_blocks (blanks before them go, from the line's beginning), and - and + where they stand.
// Reference: jinja2's lexer.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specbound::jinja {

struct Token {
  enum Kind : char {
    kText,         // outside of tags
    kBeginOutput,  // {{
    kEndOutput,    // }}
    kBeginBlock,   // {%
    kEndBlock,     // %}
    kName,
    kString,  // its contents, escapes resolved
    kInt,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
};

// Ends with kEnd. Throws NotUnderstood.
std::vector<Token> tokenize(std::string_view source);

}  // namespace specbound::jinja
