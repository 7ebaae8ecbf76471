// A call as models write it, taken apart: JSON with a name and arguments, or names and values
// between tags. What is none is nullopt: nothing is guessed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat_tools.h"

namespace specbound::server {

struct CallText {
  std::string name = {};
  std::string arguments = {};  // a JSON object, where it was JSON byte for byte
  std::string id = {};         // as the model wrote it; empty: it wrote none
  // Not a call of its own: more of the arguments of the one before, which have the rest of it.
  bool goes_on = false;
};

// White space as JSON has it.
inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
std::string_view trimmed(std::string_view text);

// Finds the end of a JSON object or array, byte by byte, without looking at what is in it.
class JsonEnd {
 public:
  // The next byte, the first of which opens it. True: it was the last one.
  bool take(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return false;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    return (c == '}' || c == ']') && --depth_ == 0;
  }

  // Objects and arrays that are open.
  int depth() const { return depth_; }
  // JSON has this byte there next.
  bool fits(char c) const {
    if (in_string_) return static_cast<unsigned char>(c) >= ' ';
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(" \t\r\n{}[]:,\"-+.E").find(c) != std::string_view::npos;
  }

 private:
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

// {"name": .., "arguments": {..}}, "tool_name" and "parameters" for those, or a list of such.
// `known`: of these tools alone, and both keys are there.
std::optional<std::vector<CallText>> calls_in_json(std::string_view json,
                                                   std::span<const Tool> known);

// Where the first of several calls ends in a list that calls_in_json() took.
size_t first_call_end(std::string_view list);

// The arguments of a call whose name is known: an object, or a string that holds one.
std::optional<std::string> call_arguments(std::string_view json);

// <function=name> <parameter=key> value </parameter> .. </function>. Values of parameters that are
// not text are JSON where they can be.
std::optional<CallText> call_in_tags(std::string_view text, std::span<const Tool> tools);

// name <arg_key>key</arg_key> <arg_value>value</arg_value> .., with values alike.
std::optional<CallText> call_in_pairs(std::string_view text, std::span<const Tool> tools);

// What a call begins with, up to where its arguments do: its name. Empty: it has none.
std::string name_in_json(const std::string& begun);

}  // namespace specbound::server
