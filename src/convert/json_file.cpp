#include "convert/json_file.h"

#include <functional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "error.h"
#include "model/mapped_file.h"

namespace specbound {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 64;

// Watches the parser: how deep it is, and which keys the objects it is in have had.
class Watch {
 public:
  explicit Watch(const std::string& name) : name_(name) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        keys_.emplace_back();
        [[fallthrough]];
      case json::parse_event_t::array_start:
        if (depth >= kMaxDepth) {
          throw Error(ErrorCode::kFormat,
                      format("%s: expected JSON nested %d deep at most", name_.c_str(), kMaxDepth));
        }
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key: {
        const std::string& key = parsed.get_ref<const std::string&>();
        if (!keys_.back().insert(key).second) {
          throw Error(ErrorCode::kFormat,
                      format("%s: expected each key of an object once, found '%s' twice",
                             name_.c_str(), printable(key).c_str()));
        }
        break;
      }
      default:
        break;
    }
    return true;
  }

 private:
  const std::string& name_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& name) {
  Watch watch(name);
  try {
    return json::parse(text.begin(), text.end(), std::ref(watch));
  } catch (const json::parse_error& e) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected JSON in UTF-8, found something else at byte %zu of %zu",
                       name.c_str(), e.byte, text.size()));
  } catch (const json::exception&) {  // out_of_range, the only other thing that parsing throws
    throw Error(
        ErrorCode::kFormat,
        format("%s: expected numbers that a double can hold, found a larger one", name.c_str()));
  }
}

json read_json(const std::string& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes) {
    throw Error(ErrorCode::kLimit, format("%s: expected at most %zu bytes, found %zu", path.c_str(),
                                          max_bytes, file.bytes().size()));
  }
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  return parse_json({text, file.bytes().size()}, path);
}

std::string json_text(const json& value) {
  // A large value is named by its kind: dumping it would take as long as it is.
  if (value.is_object()) return "an object";
  if (value.is_array()) return format("a list of %zu", value.size());
  if (value.is_string()) {
    return "'" + printable(value.get_ref<const std::string&>()) + "'";
  }
  return value.dump();
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
  if (!value->is_boolean()) bad(key, "true or false", json_text(*value));
  return value->get<bool>();
}

std::optional<double> JsonObject::number(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) bad(key, "a number", json_text(*value));
  return value->get<double>();
}

std::optional<uint64_t> JsonObject::whole(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  const bool negative =
      !value->is_number_unsigned() && value->is_number_integer() && value->get<int64_t>() < 0;
  if (!value->is_number_integer() || negative) {
    bad(key, "a whole number, 0 or more", json_text(*value));
  }
  return value->get<uint64_t>();
}

std::optional<std::string> JsonObject::text(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) bad(key, "a string", json_text(*value));
  return value->get<std::string>();
}

std::optional<JsonObject> JsonObject::object(const char* key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) bad(key, "an object", json_text(*value));
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

void JsonObject::bad(const char* key, const std::string& expected, const std::string& found) const {
  throw Error(ErrorCode::kFormat, format("%s: '%s': expected %s, found %s", place_.c_str(), key,
                                         expected.c_str(), found.c_str()));
}

void JsonObject::unsupported(const char* key, const std::string& expected,
                             const std::string& found) const {
  throw Error(ErrorCode::kUnsupported, format("%s: '%s': expected %s, found %s", place_.c_str(),
                                              key, expected.c_str(), found.c_str()));
}

}  // namespace specbound
