// Numbers from text and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace specbound {

// Whole-text number parsers; nullopt for anything else (sign where none belongs, overflow, NaN,
// inf, white space, trailing characters).
std::optional<int64_t> parse_int(std::string_view text);
std::optional<uint64_t> parse_uint(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// A count with a comma before each three digits: "1,234,567".
std::string grouped(uint64_t number);

// Floats for JSON, which knows doubles only: 0.2 would come out as 0.20000000298023224. The double
// nearest to the shortest decimal that reads back as `value`: it is printed as that.
double shortest_decimal(float value);

}  // namespace specbound
