// The fields of a JSON object, read with their types and ranges. What does not fit is an
// ApiError(400) that names the field; a field that is null counts as one that is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/json_body.h"

namespace specbound::server {

class Fields {
 public:
  // `object` must be one and outlive it. `path`: what its fields are called, "" or "messages[0].".
  explicit Fields(const Json& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}

  const Json* find(const char* name) const;  // nullptr: not there
  std::string name(const char* name) const { return path_ + name; }

  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  std::optional<int64_t> whole(const char* name, int64_t low, int64_t high) const;
  std::optional<double> number(const char* name, double low, double high) const;
  // Token ids, each 0..vocab_size-1.
  std::vector<int32_t> tokens(const char* name, int vocab_size) const;

  // "temperature: expected `expected`, found a string"
  [[noreturn]] void refuse(const char* name, const std::string& expected) const;

 private:
  const Json& object_;
  std::string path_;
};

}  // namespace specbound::server
