#include "system/number_text.h"

#include <charconv>
#include <cmath>

namespace specbound {

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_uint(std::string_view text) {
  uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = std::ssize(text) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

double shortest_decimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return parse_number({text, end.ptr}).value_or(value);  // NaN and inf are no numbers
}

}  // namespace specbound
