// The commands of a chat: what /help lists, Tab completes and a line is split into.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {

struct ChatCommand {
  enum class Argument {
    kNone,
    kOptional,  // also without it
    kNeeded,
  };
  std::string_view name;  // with its slash
  Argument takes = Argument::kNone;
  std::string_view argument;  // as /help shows it
  std::string_view help;
  std::array<std::string_view, 2> also = {};  // other names; an empty one is none

  bool is_called(std::string_view typed) const;
  // All its names, `name` first.
  std::vector<std::string> names() const;
};

std::span<const ChatCommand> chat_commands();
// By any of its names. nullptr: there is none.
const ChatCommand* find_chat_command(std::string_view typed);

// What /help says.
std::string chat_help();

// Without blanks at both ends.
std::string_view trimmed(std::string_view text);

// A line of a chat: a message, or a command with what comes after its name.
struct ChatLine {
  std::string_view command;  // as typed; empty: a message, or nothing at all
  std::string_view rest;     // the argument, or the message
};
// "//text" is the message "/text". A line with a line end in it is a message whatever it says.
ChatLine split_line(std::string_view line);
// The line that split_line() takes for the message `text`.
std::string message_line(std::string_view text);

}  // namespace specbound
