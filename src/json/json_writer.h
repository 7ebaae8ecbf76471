// JSON as it is written here. NaN and infinity become null.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace specbound {

// Indented by so many blanks; -1: on one line. Bytes that are no UTF-8 become U+FFFD.
template <class Json>
std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// What is not known is null.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace specbound
