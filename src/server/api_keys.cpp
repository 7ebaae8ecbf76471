#include "server/api_keys.h"

#include <algorithm>

#include "error.h"

namespace specbound::server {

namespace {

// 1 where they are the same. Looks at every byte of `given`, whatever is found.
unsigned same(std::string_view given, std::string_view key) {
  unsigned differences = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const unsigned char other = key.empty() ? 0 : static_cast<unsigned char>(key[i % key.size()]);
    differences |= static_cast<unsigned char>(given[i]) ^ other;
  }
  return differences == 0 ? 1 : 0;
}

}  // namespace

bool ApiKeys::accept(std::string_view key) const {
  unsigned found = keys_.empty() ? 1 : 0;
  for (const std::string& one : keys_) found |= same(key, one);
  return found != 0;
}

void check_key(std::string_view key, const std::string& where) {
  const bool printed =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (key.empty() || !printed) {
    throw Error(ErrorCode::kUsage, where + ": expected a key of visible ASCII characters, found " +
                                       (key.empty() ? "none" : "others"));
  }
}

std::vector<std::string> parse_key_file(std::string_view text, const std::string& path) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    check_key(line, path);
    keys.emplace_back(line);
  }
  if (keys.empty()) {
    throw Error(ErrorCode::kUsage, path + ": expected one key a line, found none");
  }
  return keys;
}

}  // namespace specbound::server
