#include "server/fields.h"

#include <cmath>

#include "error.h"
#include "server/api_error.h"

namespace specbound::server {

namespace {

// What a field holds, for people: numbers and short texts as they are.
std::string found(const Json& value) {
  if (value.is_number() || value.is_boolean()) return dump(value);
  if (value.is_string()) {
    return "\"" + printable(value.get_ref<const std::string&>()) + "\"";
  }
  return value.is_null() ? "nothing" : std::string("an ") + value.type_name();
}

// nullopt: no whole number, or one that no int64 holds.
std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();  // 16.0 is a whole number, too
  if (std::nearbyint(number) != number || std::fabs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

const Json* Fields::find(const char* name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void Fields::refuse(const char* name, const std::string& expected) const {
  const Json* value = find(name);
  throw ApiError(400,
                 this->name(name) + ": expected " + expected + ", found " +
                     (value ? found(*value) : "nothing"),
                 this->name(name));
}

std::optional<bool> Fields::flag(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(name, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(name, "a string");
  return value->get<std::string>();
}

std::optional<int64_t> Fields::whole(const char* name, int64_t low, int64_t high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    refuse(name, format("a whole number from %lld to %lld", static_cast<long long>(low),
                        static_cast<long long>(high)));
  }
  return number;
}

std::optional<double> Fields::number(const char* name, double low, double high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) refuse(name, format("a number from %g to %g", low, high));
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) refuse(name, format("a number from %g to %g", low, high));
  return number;
}

std::vector<int32_t> Fields::tokens(const char* name, int vocab_size) const {
  const Json* value = find(name);
  if (!value || !value->is_array()) refuse(name, "an array of token ids");
  std::vector<int32_t> ids;
  ids.reserve(value->size());
  for (size_t i = 0; i < value->size(); ++i) {
    const std::optional<int64_t> id = whole_number((*value)[i]);
    if (!id || *id < 0 || *id >= vocab_size) {
      throw ApiError(
          400,
          format("%s[%zu]: expected a token id from 0 to %d, found %s", this->name(name).c_str(), i,
                 vocab_size - 1, found((*value)[i]).c_str()),
          this->name(name));
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace specbound::server
