#include "cli/command.h"

#include <algorithm>

#include "error.h"

namespace specbound {

namespace {

// In the order in which the linker put their files.
std::vector<const Command*>& listed() {
  static std::vector<const Command*> commands;
  return commands;
}

// A real command takes the place of its stand-in.
std::vector<const Command*> in_order() {
  std::vector<const Command*> commands = listed();
  std::ranges::sort(commands, {}, [](const Command* command) {
    return std::pair(command->about().rank, dynamic_cast<const AbsentCommand*>(command) != nullptr);
  });
  const auto same = [](const Command* a, const Command* b) {
    return std::string_view(a->about().name) == b->about().name;
  };
  commands.erase(std::unique(commands.begin(), commands.end(), same), commands.end());
  return commands;
}

}  // namespace

Command::Command(const About& about) : about_(about) {
  listed().push_back(this);
}

CommandDefinition AbsentCommand::definition() const {
  return {.name = about().name, .about = why_, .footer = "", .flags = {}};
}

int AbsentCommand::run(int /*argc*/, char** /*argv*/) const {
  throw Error(ErrorCode::kUnsupported, why_);
}

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> commands = in_order();
  return commands;
}

const Command* find_command(std::string_view name) {
  const auto found =
      std::ranges::find(commands(), name, [](const Command* c) { return c->about().name; });
  return found != commands().end() ? *found : nullptr;
}

}  // namespace specbound
