// A value in a line of a trace, looked at as what should stand there: anything else is refused with
// the line, the key and what was found.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "error.h"
#include "trace/trace_reader.h"

namespace specbound {

// A value for a message: short, and without looking into lists and objects, which may be deep.
inline std::string shown_value(const nlohmann::json& value) {
  constexpr size_t kMost = 60;
  if (value.is_structured()) return value.type_name();
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// One value of a line, named by the key that it stands under.
class TraceField {
 public:
  static constexpr int64_t kMostInt = std::numeric_limits<int>::max();

  TraceField(const TracePlace& place, const char* key, const nlohmann::json& value)
      : place_(place), key_(key), value_(value) {}

  bool is_null() const { return value_.is_null(); }
  TraceField at(const char* key) const {
    if (!value_.is_object() || !value_.contains(key)) {
      place_.refuse(format("\"%s\"", key), "none: is this a trace?");
    }
    return {place_, key, value_[key]};
  }
  std::optional<TraceField> find(const char* key) const {
    if (!value_.is_object() || !value_.contains(key)) return std::nullopt;
    return at(key);
  }

  std::string text() const {
    if (!value_.is_string()) refuse("a string");
    return value_.get<std::string>();
  }
  bool boolean() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }
  uint64_t unsigned_number() const {
    if (!value_.is_number_unsigned()) refuse("a whole number from 0 on");
    return value_.get<uint64_t>();
  }
  int64_t number(int64_t low, int64_t high) const {
    const bool fits =
        value_.is_number_integer() &&
        (!value_.is_number_unsigned() || value_.get<uint64_t>() <= static_cast<uint64_t>(high));
    const int64_t found = fits ? value_.get<int64_t>() : 0;
    if (!fits || found < low || found > high) {
      refuse(format("a whole number from %lld to %lld", static_cast<long long>(low),
                    static_cast<long long>(high)));
    }
    return found;
  }
  int integer(int64_t low, int64_t high) const { return static_cast<int>(number(low, high)); }
  int count() const { return integer(0, kMostInt); }
  double real() const {
    const double found = value_.is_number() ? value_.get<double>() : 0;
    if (!value_.is_number() || !std::isfinite(found)) refuse("a number");
    return found;
  }
  float real(double low, double high) const {
    const double found = real();
    if (!(found >= low && found <= high)) refuse(format("a number from %g to %g", low, high));
    return static_cast<float>(found);
  }
  std::vector<TraceField> list(size_t most) const {
    if (!value_.is_array()) refuse("a list");
    if (value_.size() > most) {
      place_.refuse(format("at most %zu in \"%s\"", most, key_), format("%zu", value_.size()));
    }
    std::vector<TraceField> items;
    items.reserve(value_.size());
    for (const nlohmann::json& item : value_) items.emplace_back(place_, key_, item);
    return items;
  }
  // The place of a string among `names`.
  template <size_t N>
  int one_of(const std::array<const char*, N>& names) const {
    const std::string name = text();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) refuse("one of the names that a trace has");
    return static_cast<int>(found - names.begin());
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    place_.refuse(format("%s as \"%s\"", expected.c_str(), key_), shown_value(value_));
  }

 private:
  const TracePlace& place_;
  const char* key_;
  const nlohmann::json& value_;
};

}  // namespace specbound
