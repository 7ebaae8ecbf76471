// Where this person's files are kept, by the XDG base directory specification.
#pragma once

#include <cstdlib>
#include <string>

namespace specbound {

// "$VARIABLE/specbound/NAME"; without that variable, or with a relative path in it, which the
// specification forbids, "~/FALLBACK/specbound/NAME". Empty without a home either.
inline std::string user_path(const char* variable, const char* fallback, const std::string& name) {
  const char* base = std::getenv(variable);
  if (base != nullptr && base[0] == '/') return std::string(base) + "/specbound/" + name;
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return {};
  return std::string(home) + '/' + fallback + "/specbound/" + name;
}

}  // namespace specbound
