// Where this person's files are kept, by the XDG base directory specification.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "error.h"

namespace specbound {

// Empty where $HOME names no folder; a relative one is none.
inline std::string home_folder() {
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? home : "";
}

// "~/x" in the home folder; anything else, and without a home that too, as it is.
inline std::string home_expanded(std::string_view path) {
  const bool inside = (path == "~" || path.starts_with("~/")) && !home_folder().empty();
  return inside ? home_folder() + std::string(path.substr(1)) : std::string(path);
}

// "$VARIABLE/specbound/NAME"; without that variable, or with a relative path in it, which the
// specification forbids, "~/FALLBACK/specbound/NAME". Empty without a home either.
inline std::string user_path(const char* variable, const char* fallback, const std::string& name) {
  const char* base = std::getenv(variable);
  if (base != nullptr && base[0] == '/') return std::string(base) + "/specbound/" + name;
  const std::string home = home_folder();
  return home.empty() ? "" : home + '/' + fallback + "/specbound/" + name;
}

// A part of a file name from what may hold any character: FNV-1a.
inline std::string name_digits(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return format("%016llx", static_cast<unsigned long long>(hash));
}

}  // namespace specbound
