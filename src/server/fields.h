// The fields of a JSON object, read with their types and ranges (json/json_reader.h). What does not
// fit is an ApiError(400) that names the field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "json/json_reader.h"
#include "server/json_body.h"

namespace specbound::server {

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

}  // namespace specbound::server
