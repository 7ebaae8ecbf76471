// JSON that others wrote, as hostile as any other file: bounded in depth and number of values, and
// look-ups that say which field of what is not what it must be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "error.h"

namespace specbound {

struct JsonLimits {
  int depth = 64;              // arrays and objects within each other
  size_t values = SIZE_MAX;    // values and keys together; one takes about 100 bytes of memory
  bool repeated_keys = false;  // of one object: the last one counts
};

// Values of a model's own files, whose largest have some two millions.
inline constexpr size_t kMaxFileValues = size_t{1} << 24;

// For those who say in their own words what is wrong with a text.
class JsonError : public Error {
 public:
  enum class Fault { kText, kNumber, kLimit };
  JsonError(const std::string& message, Fault fault, size_t byte = 0)
      : Error(ErrorCode::kFormat, message), fault(fault), byte(byte) {}
  const Fault fault;
  const size_t byte;  // of kText: the first that is no JSON, from 1 on
};

// Throws JsonError: no JSON (NaN and Infinity are none), not UTF-8, a number that no double
// holds, more than `limits`. `name` stands for the file in messages.
nlohmann::json parse_json(std::string_view text, const std::string& name,
                          const JsonLimits& limits = {});
// The same with the keys of objects in their order, where it matters. An object then takes time in
// the square of its keys: `limits` must bound them.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& name,
                                          const JsonLimits& limits);

// A value in an error message: its text, cut; a list or an object by its kind.
std::string json_text(const nlohmann::json& value);

// A whole number as JSON writers have it, 16.0 too; nullopt: none, or one that no int64 holds.
std::optional<int64_t> whole_number(const nlohmann::json& value);

// One object. A key whose value is null counts as absent.
class JsonObject {
 public:
  // `place` names file and object in messages. `object` must outlive this. Throws Error(kFormat)
  // for what is no object.
  JsonObject(const nlohmann::json& object, std::string place);
  virtual ~JsonObject() = default;

  const nlohmann::json& value() const { return *object_; }
  const nlohmann::json* find(const char* key) const;  // null if absent

  // Typed look-ups: nullopt if absent, Error(kFormat) for another type or out of range.
  std::optional<bool> flag(const char* key) const;
  std::optional<double> number(const char* key) const;
  std::optional<double> number(const char* key, double low, double high) const;
  std::optional<uint64_t> whole(const char* key) const;
  std::optional<int64_t> whole(const char* key, int64_t low, int64_t high) const;
  std::optional<std::string> text(const char* key) const;
  std::optional<JsonObject> object(const char* key) const;

  // A whole number within bounds; `fallback` where it is absent, or an Error without one.
  uint64_t bounded(const char* key, uint64_t low, uint64_t high,
                   std::optional<uint64_t> fallback = std::nullopt) const;

  // "PLACE: 'key': expected .., found .."
  [[noreturn]] void refuse(const char* key, const std::string& expected) const;
  [[noreturn]] void bad(const char* key, const std::string& expected,
                        const std::string& found) const;
  [[noreturn]] void unsupported(const char* key, const std::string& expected,
                                const std::string& found) const;

 protected:
  [[noreturn]] virtual void fail(ErrorCode code, const char* key, const std::string& expected,
                                 const std::string& found) const;
  const std::string& place() const { return place_; }

 private:
  const nlohmann::json* object_;
  std::string place_;
};

}  // namespace specbound
