// The texts that explain the program: what --help of it and of each command prints.
#pragma once

#include <string>
#include <string_view>

#include "app/cli_definition.h"

namespace specbound {

// What `specbound --help` prints.
std::string overview();

// What `specbound COMMAND --help` prints.
std::string help_text(const CommandDefinition& command);

// How settings come from the environment and from a file: paragraphs, for help and man page.
std::string settings_help();

// "-m, --model FILE.gguf"
std::string option_head(const OptionDefinition& option);

// "specbound quantize [options] IN OUT TYPE"
std::string usage(const CommandDefinition& command);

// What to say of a name that no command has; something should follow.
std::string unknown_command(std::string_view name);

// "run|chat|...": the type of an argument that names a command.
std::string command_choices();

// Every command with its options as JSON.
std::string definitions_json();

}  // namespace specbound
