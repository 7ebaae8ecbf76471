#include "json/json_member.h"

#include <nlohmann/json.hpp>
#include <string>

namespace specbound {
namespace {

size_t skip_space(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// Behind the string that begins at `at`.
size_t skip_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
  return at + 1;
}

// Behind the value that begins at `at`.
size_t skip_value(std::string_view text, size_t at) {
  int depth = 0;
  do {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at;
    } else if (c == '}' || c == ']') {
      --depth;
      ++at;
    } else if (depth > 0) {
      ++at;
    } else {
      at = std::min(text.find_first_of(" \t\r\n,}]", at), text.size());
    }
  } while (depth > 0 && at < text.size());
  return at;
}

}  // namespace

std::string_view json_member(std::string_view object, std::string_view key) {
  std::string_view found;
  if (object.starts_with("\xEF\xBB\xBF")) object.remove_prefix(3);  // a byte order mark
  for (size_t at = skip_space(object, 0) + 1; at < object.size();) {
    at = skip_space(object, at);
    if (at >= object.size() || object[at] != '"') break;
    const size_t key_end = skip_string(object, at);
    const std::string_view spelled = object.substr(at, key_end - at);
    const size_t value = skip_space(object, skip_space(object, key_end) + 1);
    at = skip_value(object, value);
    if (nlohmann::json::parse(spelled) == key) found = object.substr(value, at - value);
    at = skip_space(object, at) + 1;  // a comma, or the end
  }
  return found;
}

}  // namespace specbound
