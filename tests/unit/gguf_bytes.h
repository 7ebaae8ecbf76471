// GGUF files written byte by byte, so that tests can also write what GgufWriter never would, and a
// walk over everything a parsed file offers, which must be safe whatever the file says.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "error.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace specbound::test {

class GgufBytes {
 public:
  GgufBytes() = default;
  GgufBytes(uint64_t n_tensors, uint64_t n_kv, uint32_t version = 3) {
    raw("GGUF").add(version).add(n_tensors).add(n_kv);
  }

  template <typename T>
  GgufBytes& add(T value) {
    static_assert(std::is_arithmetic_v<T>);
    return append(&value, sizeof(T));
  }
  GgufBytes& raw(std::string_view text) { return append(text.data(), text.size()); }
  GgufBytes& string(std::string_view text) { return add(uint64_t{text.size()}).raw(text); }

  // A key and its type; the value is for the caller to add.
  GgufBytes& key(std::string_view name, GgufType type) {
    return string(name).add(static_cast<uint32_t>(type));
  }
  GgufBytes& array(std::string_view name, GgufType type, uint64_t count) {
    return key(name, GgufType::kArray).add(static_cast<uint32_t>(type)).add(count);
  }
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t dtype,
                    uint64_t offset) {
    string(name).add(static_cast<uint32_t>(shape.size()));
    for (uint64_t size : shape) add(size);
    return add(dtype).add(offset);
  }
  GgufBytes& pad(size_t alignment = 32) {
    while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
    return *this;
  }
  GgufBytes& zeros(size_t n) {
    bytes.resize(bytes.size() + n);
    return *this;
  }

  std::vector<std::byte> bytes;

 private:
  GgufBytes& append(const void* from, size_t n) {
    const size_t at = bytes.size();
    bytes.resize(at + n);
    if (n > 0) std::memcpy(bytes.data() + at, from, n);
    return *this;
  }
};

// A file with each kind of value, alone and as an array, and three tensors.
inline GgufBytes every_value_type(uint32_t version = 3) {
  GgufBytes f(3, 24, version);
  f.key("one.u8", GgufType::kU8).add(uint8_t{200});
  f.key("one.i8", GgufType::kI8).add(int8_t{-100});
  f.key("one.u16", GgufType::kU16).add(uint16_t{60000});
  f.key("one.i16", GgufType::kI16).add(int16_t{-30000});
  f.key("one.u32", GgufType::kU32).add(uint32_t{4000000000});
  f.key("one.i32", GgufType::kI32).add(int32_t{2000000000});
  f.key("one.f32", GgufType::kF32).add(0.5f);
  f.key("one.bool", GgufType::kBool).add(uint8_t{1});
  f.key("one.string", GgufType::kString).string("text");
  f.key("one.u64", GgufType::kU64).add(UINT64_MAX);
  f.key("one.i64", GgufType::kI64).add(INT64_MIN);
  f.key("one.f64", GgufType::kF64).add(0.1);
  f.array("some.u8", GgufType::kU8, 3).raw("\x01\x02\x03");
  f.array("some.i8", GgufType::kI8, 1).add(int8_t{-1});
  f.array("some.u16", GgufType::kU16, 2).add(uint16_t{1}).add(uint16_t{2});
  f.array("some.i16", GgufType::kI16, 1).add(int16_t{-2});
  f.array("some.u32", GgufType::kU32, 2).add(uint32_t{7}).add(uint32_t{8});
  f.array("some.i32", GgufType::kI32, 2).add(int32_t{-7}).add(int32_t{8});
  f.array("some.f32", GgufType::kF32, 2).add(1.5f).add(-2.5f);
  f.array("some.bool", GgufType::kBool, 2).add(uint8_t{0}).add(uint8_t{1});
  f.array("some.string", GgufType::kString, 3).string("a").string("").string("\xff\xfe");
  f.array("some.u64", GgufType::kU64, 1).add(uint64_t{9});
  f.array("some.f64", GgufType::kF64, 1).add(2.0);
  f.array("none.i64", GgufType::kI64, 0);
  f.tensor("f32", {3, 2}, 0, 0);          // 24 bytes
  f.tensor("q8_0", {64}, 8, 32);          // 68 bytes
  f.tensor("f16", {2, 2, 2, 2}, 1, 128);  // 32 bytes
  f.pad();
  for (int i = 0; i < 160; ++i) f.add(static_cast<uint8_t>(i + 1));
  return f;
}

// Asks a parsed file everything: each typed getter for each key, the ends of each tensor, whether
// it is a model. Errors are fine, anything else is not. Returns a number that depends on all it
// read.
inline uint64_t exercise(const Gguf& gguf) {
  uint64_t sum = 0;
  const auto ask = [&](auto&& question) {
    try {
      sum += question();
    } catch (const Error&) {
      ++sum;
    }
  };
  for (const auto& entry : gguf.metadata()) {
    const std::string_view key = entry.first;
    SB_CHECK(gguf.find(key) == &entry.second);
    // The key is there: a getter gives a value or throws.
    ask([&] { return *gguf.get_uint(key); });
    ask([&] { return std::bit_cast<uint64_t>(*gguf.get_float(key)); });
    ask([&] { return uint64_t{*gguf.get_bool(key)}; });
    ask([&] { return gguf.get_string(key)->size(); });
    ask([&] {
      const std::vector<std::string_view> strings = *gguf.get_strings(key);
      uint64_t total = 0;
      for (std::string_view s : strings) {
        total += s.size();
        if (!s.empty()) total += static_cast<unsigned char>(s.front()) + s.back();
      }
      return total;
    });
    ask([&] { return gguf.get_floats(key)->size(); });
    ask([&] { return gguf.get_ints(key)->size(); });
  }
  for (const GgufTensor& tensor : gguf.tensors()) {
    SB_CHECK(gguf.find_tensor(tensor.name) == &tensor);
    SB_CHECK(dtype_info(tensor.type) && !tensor.bytes.empty());
    sum += std::to_integer<int>(tensor.bytes.front()) + std::to_integer<int>(tensor.bytes.back());
  }
  ask([&] {
    const ModelConfig config = read_config(gguf);
    const Weights weights = map_weights(gguf, config);
    return weights.bytes_per_token() + weights.layers.size();
  });
  return sum;
}

}  // namespace specbound::test
