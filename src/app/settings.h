// Where flags come from that are not on the command line: environment, then the settings file's
// [command], then its top. Each flag is taken from the strongest of these that has it.
#pragma once

#include <cstdio>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace specbound {

// --config and --no-config, where `app` has a flag that may come from the file.
void add_settings_flags(CLI::App& app);

// Gives what the command line left out, and tells on `err` what came from where. `app` has been
// parsed; `command` is the subcommand's name. Throws Error(kUsage), which begins with the place of
// what is wrong, and what reading the file throws.
void apply_settings(CLI::App& app, const std::string& command, FILE* err);

// The file that apply_settings() reads for `app`; empty: none. Throws Error(kUsage).
std::string settings_path(CLI::App& app);

// "top-k" -> "SPECBOUND_TOP_K"
std::string environment_name(const std::string& long_name);

}  // namespace specbound
