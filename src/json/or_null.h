// What is not known, as JSON has it: null. NaN and infinity become null when they are written.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace specbound {

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace specbound
