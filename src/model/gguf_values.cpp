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

GgufNumber load_number(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kU8:
      return uint64_t{load<uint8_t>(bytes)};
    case GgufType::kU16:
      return uint64_t{load<uint16_t>(bytes)};
    case GgufType::kU32:
      return uint64_t{load<uint32_t>(bytes)};
    case GgufType::kU64:
      return load<uint64_t>(bytes);
    case GgufType::kI8:
      return int64_t{load<int8_t>(bytes)};
    case GgufType::kI16:
      return int64_t{load<int16_t>(bytes)};
    case GgufType::kI32:
      return int64_t{load<int32_t>(bytes)};
    case GgufType::kI64:
      return load<int64_t>(bytes);
    case GgufType::kF32:
      return double{load<float>(bytes)};
    case GgufType::kF64:
      return load<double>(bytes);
    case GgufType::kBool:
      return load<uint8_t>(bytes) != 0;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return nullptr;
}

std::optional<uint64_t> Gguf::get_uint(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  constexpr const char* kExpected = "a whole number, zero or more";
  const GgufNumber number = value->number();
  if (const auto* natural = std::get_if<uint64_t>(&number)) return *natural;
  const auto* whole = std::get_if<int64_t>(&number);
  if (!whole) wrong_type(*this, key, kExpected, *value);
  if (*whole < 0) wrong_number(*this, key, kExpected, *whole);
  return static_cast<uint64_t>(*whole);
}

std::optional<double> Gguf::get_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  const GgufNumber number = value->number();
  if (const auto* real = std::get_if<double>(&number)) return *real;
  wrong_type(*this, key, "f32 or f64", *value);
}

std::optional<bool> Gguf::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  const GgufNumber number = value->number();
  if (const auto* flag = std::get_if<bool>(&number)) return *flag;
  wrong_type(*this, key, "bool", *value);
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
