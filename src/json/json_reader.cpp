#include "json/json_reader.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace specbound {

using nlohmann::json;

namespace {

// Reads along before anything is kept: how deep it is, how much there is, and which keys the
// objects it is in have had. Not a callback of the parser: with one, it looks through everything
// that an object lies beside whenever that ends.
template <class Json>
class Watch final : public nlohmann::json_sax<Json> {
 public:
  Watch(const std::string& name, const JsonLimits& limits) : name_(name), limits_(limits) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(typename Json::number_integer_t) override { return count(); }
  bool number_unsigned(typename Json::number_unsigned_t) override { return count(); }
  bool number_float(typename Json::number_float_t, const std::string&) override { return count(); }
  bool string(std::string&) override { return count(); }
  bool binary(typename Json::binary_t&) override { return count(); }
  bool start_object(size_t) override {
    keys_.emplace_back();
    return go_deeper();
  }
  bool key(std::string& key) override {
    count();
    if (!limits_.repeated_keys && !keys_.back().insert(key).second) {
      fail(format("expected each key of an object once, found '%s' twice", printable(key).c_str()));
    }
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return go_deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  // What is no JSON the parser will say.
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool count() {
    if (++values_ > limits_.values) {
      fail(format("expected JSON of at most %zu values, found more", limits_.values));
    }
    return true;
  }
  bool go_deeper() {
    count();
    if (++depth_ > limits_.depth) {
      fail(format("expected JSON nested %d deep at most, found more levels", limits_.depth));
    }
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw JsonError(name_ + ": " + what, JsonError::Fault::kLimit);
  }

  const std::string& name_;
  const JsonLimits& limits_;
  size_t values_ = 0;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;  // ordered: whatever they are, a look-up is short
};

template <class Json>
Json parse_as(std::string_view text, const std::string& name, const JsonLimits& limits) {
  Watch<Json> watch(name, limits);
  Json::sax_parse(text.begin(), text.end(), &watch);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const json::parse_error& e) {
    const std::string found =
        e.byte > text.size() ? format("its end after %zu bytes", text.size())
                             : format("something else at byte %zu of %zu", e.byte, text.size());
    throw JsonError(format("%s: expected JSON in UTF-8, found %s", name.c_str(), found.c_str()),
                    JsonError::Fault::kText, e.byte);
  } catch (const json::exception&) {  // out_of_range, the only other thing that parsing throws
    throw JsonError(
        format("%s: expected numbers that a double can hold, found a larger one", name.c_str()),
        JsonError::Fault::kNumber);
  }
}

}  // namespace

json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  return parse_as<json>(text, name, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& name,
                                          const JsonLimits& limits) {
  return parse_as<nlohmann::ordered_json>(text, name, limits);
}

std::string json_text(const json& value) {
  // A large value is named by its kind: dumping it would take as long as it is.
  if (value.is_object()) return "an object";
  if (value.is_array()) return format("a list of %zu", value.size());
  if (value.is_string()) {
    return '"' + printable(value.get_ref<const std::string&>()) + '"';
  }
  return value.dump();
}

std::optional<int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::nearbyint(number) != number || std::fabs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

JsonObject::JsonObject(const json& object, std::string place)
    : object_(&object), place_(std::move(place)) {
  if (!object_->is_object()) {
    throw Error(ErrorCode::kFormat, format("%s: expected an object, found %s", place_.c_str(),
                                           json_text(*object_).c_str()));
  }
}

const json* JsonObject::find(const char* key) const {
  const auto at = object_->find(key);
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

std::optional<bool> JsonObject::flag(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::optional<double> JsonObject::number(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) refuse(key, "a number");
  return value->get<double>();
}

std::optional<uint64_t> JsonObject::whole(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  const bool negative =
      !value->is_number_unsigned() && value->is_number_integer() && value->get<int64_t>() < 0;
  if (!value->is_number_integer() || negative) {
    refuse(key, "a whole number, 0 or more");
  }
  return value->get<uint64_t>();
}

std::optional<int64_t> JsonObject::whole(const char* key, int64_t low, int64_t high) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    refuse(key, format("a whole number from %lld to %lld", static_cast<long long>(low),
                       static_cast<long long>(high)));
  }
  return number;
}

std::optional<double> JsonObject::number(const char* key, double low, double high) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= low && number <= high)) refuse(key, format("a number from %g to %g", low, high));
  return number;
}

std::optional<std::string> JsonObject::text(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string");
  return value->get<std::string>();
}

std::optional<JsonObject> JsonObject::object(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object");
  return JsonObject(*value, place_ + ": " + key);
}

uint64_t JsonObject::bounded(const char* key, uint64_t low, uint64_t high,
                             std::optional<uint64_t> fallback) const {
  const std::optional<uint64_t> found = whole(key);
  const std::string expected =
      format("a whole number, %llu to %llu", static_cast<unsigned long long>(low),
             static_cast<unsigned long long>(high));
  if (!found && !fallback) bad(key, expected, "no such key");
  const uint64_t value = found ? *found : *fallback;
  if (value < low || value > high) {
    bad(key, expected,
        format("%llu%s", static_cast<unsigned long long>(value), found ? "" : " (by default)"));
  }
  return value;
}

void JsonObject::refuse(const char* key, const std::string& expected) const {
  const auto at = object_->find(key);
  bad(key, expected, at != object_->end() ? json_text(*at) : "no such key");
}

void JsonObject::bad(const char* key, const std::string& expected, const std::string& found) const {
  fail(ErrorCode::kFormat, key, expected, found);
  std::abort();  // compilers take virtual functions to return
}

void JsonObject::unsupported(const char* key, const std::string& expected,
                             const std::string& found) const {
  fail(ErrorCode::kUnsupported, key, expected, found);
  std::abort();
}

void JsonObject::fail(ErrorCode code, const char* key, const std::string& expected,
                      const std::string& found) const {
  throw Error(code, format("%s: '%s': expected %s, found %s", place_.c_str(), key, expected.c_str(),
                           found.c_str()));
}

}  // namespace specbound
