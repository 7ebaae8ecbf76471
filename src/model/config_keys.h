// Metadata keys of one architecture, "{architecture}.name": every complaint names file and key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "model/gguf.h"

namespace specbound {

class ConfigKeys {
 public:
  ConfigKeys(const Gguf& gguf, const std::string& architecture)
      : gguf_(gguf), architecture_(architecture) {}

  std::string key(const char* name) const { return architecture_ + "." + name; }

  std::optional<double> number(const char* name) const { return gguf_.get_float(key(name)); }
  std::optional<std::string_view> text(const char* name) const {
    return gguf_.get_string(key(name));
  }

  // A whole number; some writers store one per layer, which is taken when all layers agree.
  std::optional<uint64_t> count(const char* name) const {
    const GgufValue* value = gguf_.find(key(name));
    if (!value || !value->is_array) return gguf_.get_uint(key(name));
    const std::vector<int32_t> layers = *gguf_.get_ints(key(name));
    if (layers.empty()) bad(name, "one number or one per layer", "an empty list");
    if (layers[0] < 0) bad(name, "a whole number", format("%d", layers[0]));
    for (size_t l = 1; l < layers.size(); ++l) {
      if (layers[l] != layers[0]) {
        unsupported(name, "the same number for all layers",
                    format("%d and %d", layers[0], layers[l]));
      }
    }
    return layers[0];
  }

  // A required (or defaulted) whole number within bounds.
  int bounded(const char* name, uint64_t low, uint64_t high,
              std::optional<uint64_t> fallback = std::nullopt) const {
    const std::optional<uint64_t> found = count(name);
    if (!found && !fallback) bad(name, "a whole number", "no such key");
    const uint64_t value = found ? *found : *fallback;
    if (value < low || value > high) {
      bad(name,
          format("%llu to %llu", static_cast<unsigned long long>(low),
                 static_cast<unsigned long long>(high)),
          format("%llu%s", static_cast<unsigned long long>(value), found ? "" : " (by default)"));
    }
    return static_cast<int>(value);
  }

  [[noreturn]] void bad(const char* name, const std::string& expected,
                        const std::string& found) const {
    fail(ErrorCode::kFormat, name, expected, found);
  }
  [[noreturn]] void unsupported(const char* name, const std::string& expected,
                                const std::string& found) const {
    fail(ErrorCode::kUnsupported, name, expected, found);
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const char* name, const std::string& expected,
                         const std::string& found) const {
    throw Error(code, format("%s: key '%s': expected %s, found %s", gguf_.path().c_str(),
                             key(name).c_str(), expected.c_str(), found.c_str()));
  }

  const Gguf& gguf_;
  const std::string architecture_;
};

}  // namespace specbound
