// The subcommands by name, in the order in which help, man page and completion list them.
#pragma once

#include <span>
#include <string_view>

namespace specbound {

struct Command {
  const char* name;
  const char* summary;  // one line, without a period
  int (*run)(int argc, char** argv);
};

std::span<const Command> commands();

// nullptr: there is none of that name.
const Command* find_command(std::string_view name);

}  // namespace specbound
