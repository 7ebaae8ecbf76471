// The messages of a chat, read from JSON as OpenAI's interface has them, and what else goes into a
// chat template: tools, and variables that the template may ask for.
#pragma once

#include <string_view>
#include <vector>

#include "server/chat_tools.h"
#include "server/json_body.h"
#include "templates/chat_template.h"

namespace specbound::server {

inline constexpr size_t kMaxCalls = 128;  // of one message
// Values of JSON in tools, arguments and variables together: each is kept several times while a
// template runs, for as many clients as come together.
inline constexpr size_t kMaxChatValues = size_t{1} << 16;

struct Chat {
  std::vector<ChatMessage> messages;  // at least one
  ToolRequest tools;
  ChatValue::Dict variables;  // chat_template_kwargs
  bool asks = true;           // the prompt ends where a reply begins
  bool continues = false;     // the last message, which is the assistant's, goes on

  // The reply is the rest of the last message, of which there is some.
  bool goes_on() const;

  // Of which this must outlive what it gives.
  ChatInput input() const {
    return {.messages = messages,
            .tools = tools.as_given,
            .variables = variables,
            .asks = asks,
            .continues = continues};
  }
};

// `body`: the JSON that `fields` are of. Throws ApiError(400).
Chat read_chat(const Fields& fields, std::string_view body);

}  // namespace specbound::server
