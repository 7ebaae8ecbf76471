// The body of a request as JSON, whatever bytes came: bounded in depth and in number of values,
// valid UTF-8, one value. NaN and infinity cannot be written in JSON, and numbers that would become
// one are refused. And its fields, read with their types and ranges.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json_reader.h"

namespace specbound::server {

// Not the ordered kind: its objects are searched from end to end for each key that is read.
using Json = nlohmann::json;

// Arrays and objects within each other; values and keys together. What one body takes in memory is
// about 100 bytes for each of them.
inline constexpr int kMaxJsonDepth = 32;
inline constexpr size_t kMaxJsonValues = size_t{1} << 20;

// An object. Of a repeated key the last one counts. Throws ApiError(400).
Json parse_body(std::string_view body);

// An array of token ids, each 0..vocab_size-1. `path`: what it is called.
std::vector<int32_t> read_tokens(const Json& value, const std::string& path, int vocab_size);

// The fields of an object. What does not fit is an ApiError(400) that names the field.
class Fields final : public JsonObject {
 public:
  // `object` must be one and outlive it. `path`: what its fields are called, "" or "messages[0].".
  explicit Fields(const Json& object, std::string path = "")
      : JsonObject(object, std::move(path)) {}

  std::string name(const char* name) const { return place() + name; }

  // Token ids, each 0..vocab_size-1.
  std::vector<int32_t> tokens(const char* name, int vocab_size) const;

 private:
  // "temperature: expected .., found .."
  [[noreturn]] void fail(ErrorCode code, const char* key, const std::string& expected,
                         const std::string& found) const override;
};

// The field "model", as the client calls it; empty without one.
std::string read_model_name(const Fields& fields);

}  // namespace specbound::server
