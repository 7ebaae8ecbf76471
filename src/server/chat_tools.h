// The tools of a request: what a model may call, whether it must, and what the text of such a call
// can be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/chat_value.h"
#include "server/json_body.h"

namespace specbound::server {

inline constexpr size_t kMaxTools = 128;  // as OpenAI has it
inline constexpr size_t kMaxToolName = 64;

struct Tool {
  std::string name;
  std::string parameters = R"({"type":"object","properties":{}})";  // a schema, as JSON
  bool strict = false;                                              // arguments must follow it
  std::vector<std::string> text_parameters = {};  // those that are strings and nothing else
};

struct ToolChoice {
  enum class Kind { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kNone;
  std::string name = {};  // that must be called
};

struct ToolRequest {
  std::vector<Tool> tools;        // none where none may be called
  ChatValue::List as_given = {};  // the same for the template
  ToolChoice choice = {};
  bool parallel = true;  // several calls in a reply

  // A call or text, as the model likes, but the arguments of some tools follow their schema.
  bool strict() const;
  // Whatever calls a reply has are held to what they may be.
  bool held() const { return must() || strict(); }
  // The reply is a call.
  bool must() const {
    return choice.kind == ToolChoice::Kind::kRequired || choice.kind == ToolChoice::Kind::kNamed;
  }
};

// tools, tool_choice, parallel_tool_calls. `ordered`: the same body. Throws ApiError(400).
ToolRequest read_tools(const Fields& fields, const ChatValue& ordered);

}  // namespace specbound::server
