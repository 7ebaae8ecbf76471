// The texts that explain the program: what --help of it and of each command prints, and what was
// probably meant by a name that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace specbound {

// What `specbound --help` prints.
std::string overview();

// What `specbound COMMAND --help` prints.
std::string help_text(const CommandDefinition& command);

// What `specbound ARGUMENTS` prints where they are "man", "man COMMAND" or "completion SHELL"; else
// empty. packaging/help_texts.py writes it from `specbound help --json` when the program is built.
// Throws Error(kUnsupported) in a program that was linked without it.
std::string_view made_text(std::string_view arguments);

// "run|chat|...": the type of an argument that names a command.
std::string command_choices();

// The command of that name; empty: nullptr. Throws Error(kUsage) with what was probably meant.
const Command* named_command(std::string_view name);

// What to say of a name that no command has; something should follow.
std::string unknown_command(std::string_view name);

// How many letters must be put in, left out, replaced or exchanged with their neighbour to make one
// word of the other.
size_t letters_apart(std::string_view a, std::string_view b);

// The one among `known` that is nearest to `word`; empty when none is near enough to be meant.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace specbound
