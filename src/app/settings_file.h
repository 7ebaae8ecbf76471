// The settings file: flags by their long names, one a line.
//
//   # a comment
//   name = value          # another
//   name = " value "      with \n \t \" \\ in it
//   [command]             what follows is for this command alone
//
// UTF-8 without NUL, at most 1 MiB. What the names mean is the matter of app/settings.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

// $XDG_CONFIG_HOME/specbound/config or ~/.config/specbound/config; empty without a home.
std::string default_settings_path();

// `path` with the home folder as ~, fit for a terminal.
std::string shown_path(const std::string& path);

// "~/x" in the home folder; anything else, and without a home that too, as it is.
std::string expand_home(const std::string& path);

// Throws Error(kFile | kLimit | kUsage) with the path, and the line where it is about one.
SettingsFile read_settings_file(const std::string& path);

// The same from a text; `path` is what complaints call it.
SettingsFile parse_settings(std::string_view text, const std::string& path);

}  // namespace specbound
