// Scripts by which shells complete commands, options and their values. All is written into the
// script: the shell does not start the program to complete a word.
#pragma once

#include <string>
#include <vector>

#include "app/cli_definition.h"

namespace specbound {

// A command with its one line for lists.
struct CompletedCommand {
  std::string summary;
  CommandDefinition definition;
};

std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

// `parts` with `between` between them.
std::string joined(const std::vector<std::string>& parts, const std::string& between);

// In single quotes, as all three shells read it.
std::string shell_quoted(const std::string& text);

}  // namespace specbound
