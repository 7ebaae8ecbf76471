// Where flags come from that are not on the command line: the environment, then the settings file's
// [command], then its top. Each flag is taken from the strongest of these that has it, by its long
// name. settings_help() says what the file looks like; it is UTF-8 without NUL, at most 1 MiB.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"

namespace specbound {

struct FileSetting {
  std::string section;  // empty: the top, for every command
  std::string name;
  std::string value;
  int line = 0;  // from 1
};

struct SettingsFile {
  std::string path;  // empty: none was read
  std::vector<FileSetting> settings;

  // "~/.config/specbound/config:3"
  std::string place(int line) const;
};

// Gives what the command line left out, and tells on `err` what came from where. `flags` have been
// parsed; `command` is the subcommand's name. Throws Error(kUsage), which begins with the place of
// what is wrong, and what reading the file throws.
void apply_settings(Flags& flags, const std::string& command, FILE* err);

// The file that apply_settings() reads; empty: none. Throws Error(kUsage).
std::string settings_path(Flags& flags);

// How all this is used: paragraphs, for help and man page.
std::string settings_help();

// "top-k" -> "SPECBOUND_TOP_K"
std::string environment_name(const std::string& long_name);

// $XDG_CONFIG_HOME/specbound/config or ~/.config/specbound/config; empty without a home.
std::string default_settings_path();

// `path` with the home folder as ~, fit for a terminal.
std::string shown_path(const std::string& path);

// Throws Error(kFile | kLimit | kUsage) with the path, and the line where it is about one.
SettingsFile read_settings_file(const std::string& path);

// The same from a text; `path` is what complaints call it.
SettingsFile parse_settings(std::string_view text, const std::string& path);

}  // namespace specbound
