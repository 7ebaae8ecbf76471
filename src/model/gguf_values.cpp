// Typed look-ups of GGUF metadata: the one place where a value's bytes become numbers and strings.
#include <cstring>

#include "error.h"
#include "model/gguf.h"

namespace specbound {
namespace {

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

std::string type_text(const GgufValue& value) {
  const char* name = gguf_type_name(value.type);
  return value.is_array ? format("an array of %s", name) : std::string(name);
}

[[noreturn]] void wrong_type(const Gguf& gguf, std::string_view key, const char* expected,
                             const GgufValue& found) {
  throw Error(ErrorCode::kFormat,
              format("%s: key '%s': expected %s, found %s", gguf.path().c_str(),
                     printable(key).c_str(), expected, type_text(found).c_str()));
}

[[noreturn]] void wrong_number(const Gguf& gguf, std::string_view key, const char* expected,
                               long long found) {
  throw Error(ErrorCode::kFormat,
              format("%s: key '%s': expected %s, found %lld", gguf.path().c_str(),
                     printable(key).c_str(), expected, found));
}

}  // namespace

std::optional<uint64_t> Gguf::get_uint(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  constexpr const char* kExpected = "a whole number, zero or more";
  if (value->is_array) wrong_type(*this, key, kExpected, *value);
  const std::byte* bytes = value->bytes.data();
  int64_t number = 0;
  switch (value->type) {
    case GgufType::kU8:
      return load<uint8_t>(bytes);
    case GgufType::kU16:
      return load<uint16_t>(bytes);
    case GgufType::kU32:
      return load<uint32_t>(bytes);
    case GgufType::kU64:
      return load<uint64_t>(bytes);
    case GgufType::kI8:
      number = load<int8_t>(bytes);
      break;
    case GgufType::kI16:
      number = load<int16_t>(bytes);
      break;
    case GgufType::kI32:
      number = load<int32_t>(bytes);
      break;
    case GgufType::kI64:
      number = load<int64_t>(bytes);
      break;
    default:
      wrong_type(*this, key, kExpected, *value);
  }
  if (number < 0) wrong_number(*this, key, kExpected, number);
  return static_cast<uint64_t>(number);
}

std::optional<double> Gguf::get_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array && value->type == GgufType::kF32) return load<float>(value->bytes.data());
  if (!value->is_array && value->type == GgufType::kF64) return load<double>(value->bytes.data());
  wrong_type(*this, key, "f32 or f64", *value);
}

std::optional<bool> Gguf::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_array || value->type != GgufType::kBool) wrong_type(*this, key, "bool", *value);
  return value->bytes[0] != std::byte{0};
}

std::optional<std::string_view> Gguf::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_array || value->type != GgufType::kString) {
    wrong_type(*this, key, "string", *value);
  }
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::optional<std::vector<std::string_view>> Gguf::get_strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array || value->type != GgufType::kString) {
    wrong_type(*this, key, "an array of string", *value);
  }
  // The parser has walked these bytes: every length in them is in range.
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  const std::byte* at = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto n = load<uint64_t>(at);
    strings.emplace_back(reinterpret_cast<const char*>(at + sizeof(n)), n);
    at += sizeof(n) + n;
  }
  return strings;
}

std::optional<std::vector<float>> Gguf::get_floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array || value->type != GgufType::kF32) {
    wrong_type(*this, key, "an array of f32", *value);
  }
  std::vector<float> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  return numbers;
}

std::optional<std::vector<int32_t>> Gguf::get_ints(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array || (value->type != GgufType::kI32 && value->type != GgufType::kU32)) {
    wrong_type(*this, key, "an array of i32 or u32", *value);
  }
  std::vector<int32_t> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  if (value->type == GgufType::kU32) {
    for (int32_t number : numbers) {
      if (number < 0) {
        wrong_number(*this, key, "numbers up to 2147483647", static_cast<uint32_t>(number));
      }
    }
  }
  return numbers;
}

}  // namespace specbound
