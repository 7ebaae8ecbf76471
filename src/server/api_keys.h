// The keys that clients must have one of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specbound::server {

class ApiKeys {
 public:
  ApiKeys() = default;  // none: everybody may
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool empty() const { return keys_.empty(); }
  // Takes as long whatever is wrong with it, so that no one finds a key byte by byte.
  bool accept(std::string_view key) const;

 private:
  std::vector<std::string> keys_;
};

// One a line; blank lines and what begins with # are none. Throws Error(kUsage) for a file without
// any, or with a key that no header could carry.
std::vector<std::string> parse_key_file(std::string_view text, const std::string& path);
// Throws Error(kUsage) for what no header could carry.
void check_key(std::string_view key, const std::string& where);

}  // namespace specbound::server
