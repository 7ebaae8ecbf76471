// What stands in front of a call's JSON, or of a message in channels: whose it is, and what.
#pragma once

#include <string>
#include <string_view>

#include "server/tool_calls.h"
#include "templates/reply_format.h"

namespace specbound::server {

inline constexpr std::string_view kFence = "```";

bool is_one_word(std::string_view text);

// What the bytes between a call's mark and the bracket that follows them say.
struct CallHead {
  bool fits = true;     // that bracket begins the call's JSON
  CallText call = {};   // as far as it is known
  bool fenced = false;  // in a block of code
};
CallHead call_head(const ReplyFormat& format, std::string_view head);

// The head of a message in channels, from <|start|> or, behind a prompt that ends with that, from
// what follows it, up to <|message|>.
struct MessageHead {
  enum class Kind {
    kText,
    kThoughts,
    kCall,
    kOther,  // of somebody else, or to somebody else: all of it is text
  };
  Kind kind = Kind::kOther;
  std::string name = {};  // of the function that is called
};
MessageHead message_head(std::string_view head);
// Those bytes may begin one, whatever it is.
bool may_be_message_head(std::string_view head);
// They are one of the assistant's, which was cut off behind its first mark.
bool begins_message_head(std::string_view head);
bool calls_somebody(std::string_view head);

}  // namespace specbound::server
