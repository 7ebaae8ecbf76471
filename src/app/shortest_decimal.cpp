#include "app/shortest_decimal.h"

#include <charconv>

#include "app/cli.h"

namespace specbound {

double shortest_decimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return parse_number({text, end.ptr}).value_or(value);  // NaN and inf are no numbers
}

}  // namespace specbound
