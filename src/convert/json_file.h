// The JSON files of a model directory, as hostile as any other file: bounded in size and depth, no
// key twice in one object, and look-ups that say which key of which file is not what it must be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace specbound {

// Throws Error(kFormat): no JSON (NaN and Infinity are none), not UTF-8, a number that no double
// holds, nested deeper than 64, a key twice. `name` stands for the file in messages.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// The whole file at `path`. Throws Error(kFile), Error(kLimit) above `max_bytes`, and the above.
nlohmann::json read_json(const std::string& path, size_t max_bytes);

// One object of a file. A key whose value is null counts as absent.
class JsonObject {
 public:
  // `place` names file and object in messages. Both must outlive this. Throws Error(kFormat) for
  // what is no object.
  JsonObject(const nlohmann::json& object, std::string place);

  const nlohmann::json& value() const { return *object_; }
  const nlohmann::json* find(const char* key) const;  // null if absent

  // Typed look-ups: nullopt if absent, Error(kFormat) for another type.
  std::optional<bool> flag(const char* key) const;
  std::optional<double> number(const char* key) const;
  std::optional<uint64_t> whole(const char* key) const;
  std::optional<std::string> text(const char* key) const;
  std::optional<JsonObject> object(const char* key) const;

  // A whole number within bounds; `fallback` where it is absent, or an Error without one.
  uint64_t bounded(const char* key, uint64_t low, uint64_t high,
                   std::optional<uint64_t> fallback = std::nullopt) const;

  [[noreturn]] void bad(const char* key, const std::string& expected,
                        const std::string& found) const;
  [[noreturn]] void unsupported(const char* key, const std::string& expected,
                                const std::string& found) const;

 private:
  const nlohmann::json* object_;
  std::string place_;
};

// A value in an error message: its text, cut.
std::string json_text(const nlohmann::json& value);

}  // namespace specbound
