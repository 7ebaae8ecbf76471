// Keys and tensors of a heads file, each checked where it is read: what is not as expected is one
// Error(kFormat) that names the file, the key or tensor, what was expected and what was found.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "model/exit_heads.h"

namespace specbound {

// Bounds that no model reaches, so that products of them fit.
inline constexpr uint64_t kMostHeadLayers = 4096, kMostHeadDim = 1 << 17, kMostHeadVocab = 1 << 23,
                          kMostHeadInner = 1 << 20;
inline constexpr const char *kHeadsText = "exit.text", *kHeadsMasks = "exit.masks.weight";

inline unsigned long long ull(uint64_t value) {
  return value;
}

// The first value of a matrix that is infinite or no number, as a text; empty: none.
inline std::string first_not_finite(const Matrix& m) {
  // All exponent bits set.
  const auto half = [](uint16_t bits) { return (bits & 0x7c00u) == 0x7c00u; };
  const auto brain = [](uint16_t bits) { return (bits & 0x7f80u) == 0x7f80u; };
  const auto find = [&](size_t n, auto&& bad) -> std::string {
    const size_t per_row = n / m.n_out;
    for (size_t i = 0; i < n; ++i) {
      if (bad(i)) return format("row %zu", i / per_row);
    }
    return "";
  };
  const size_t n = static_cast<size_t>(m.n_out) * m.n_in;
  if (m.type == DType::kQ8_0) {
    return find(n / 32, [&](size_t i) {
      uint16_t d;
      std::memcpy(&d, m.data + i * sizeof(BlockQ8_0), sizeof(d));
      return half(d);
    });
  }
  if (m.type == DType::kF16 || m.type == DType::kBF16) {
    return find(n, [&](size_t i) {
      uint16_t bits;
      std::memcpy(&bits, m.data + i * sizeof(bits), sizeof(bits));
      return m.type == DType::kF16 ? half(bits) : brain(bits);
    });
  }
  SB_CHECK(m.type == DType::kF32);
  return find(n, [&](size_t i) {
    uint32_t bits;
    std::memcpy(&bits, m.data + i * sizeof(bits), sizeof(bits));
    return (bits & 0x7f800000u) == 0x7f800000u;
  });
}

class HeadsReader {
 public:
  explicit HeadsReader(const Gguf& file) : file_(file) {}

  std::string_view text(const char* key) const {
    const auto value = file_.get_string(key);
    if (!value) missing(key, "a text");
    return *value;
  }
  int number(const char* key, uint64_t low, uint64_t high) const {
    const auto value = file_.get_uint(key);
    const std::string expected = format("%llu to %llu", ull(low), ull(high));
    if (!value) missing(key, expected);
    if (*value < low || *value > high) bad(key, expected, format("%llu", ull(*value)));
    return static_cast<int>(*value);
  }
  int64_t count(const char* key, uint64_t most) const {
    const auto value = file_.get_uint(key);
    if (!value || *value > most) {
      bad(key, format("0 to %llu", ull(most)), value ? format("%llu", ull(*value)) : "no number");
    }
    return static_cast<int64_t>(*value);
  }
  float real(const char* key, double low, double high) const {
    const auto value = file_.get_float(key);
    const std::string expected = format("%g to %g", low, high);
    if (!value) missing(key, expected);
    if (!(*value >= low && *value <= high)) bad(key, expected, format("%g", *value));
    return static_cast<float>(*value);
  }
  std::vector<int32_t> integers(const char* key) const {
    auto values = file_.get_ints(key);
    if (!values) missing(key, "an array of i32");
    return std::move(*values);
  }
  std::vector<float> finite_reals(const char* key, size_t count) const {
    auto values = file_.get_floats(key);
    if (!values) missing(key, "an array of f32");
    check_count(key, values->size(), count);
    for (float value : *values) {
      if (!std::isfinite(value)) bad(key, "finite numbers", format("%g", value));
    }
    return std::move(*values);
  }
  std::vector<std::string_view> texts(const char* key, size_t count) const {
    auto values = file_.get_strings(key);
    if (!values) missing(key, "an array of string");
    check_count(key, values->size(), count);
    return std::move(*values);
  }
  HeadKind kind(const char* key, std::string_view name) const {
    const auto kind = parse_head_kind(name);
    if (!kind)
      bad(key, "full, folded, chained, layer, medusa, eagle, eagle3, hydra, mtp or kangaroo",
          "'" + printable(name) + "'");
    return *kind;
  }

  bool has_key(const char* key) const { return file_.find(key) != nullptr; }
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  // n_out 0: as many as the tensor has, whole blocks of 32; kAny: whatever they are.
  static constexpr int kAny = -1;
  Matrix matrix(const std::string& name, int n_out, int n_in, std::initializer_list<DType> types) {
    const GgufTensor& tensor = take(name);
    const std::vector<uint64_t>& shape = tensor.shape;
    const uint64_t rows = shape.size() == 2 ? shape[1] : 1;
    const bool free = n_out <= 0;
    const uint64_t unit = n_out == 0 ? 32 : 1;
    if (shape.size() > 2 || shape[0] != static_cast<uint64_t>(n_in) ||
        (free ? rows % unit != 0 || rows > kMostHeadInner : rows != static_cast<uint64_t>(n_out))) {
      const std::string expected = n_out == 0 ? format("(%d, a multiple of 32)", n_in)
                                   : n_out < 0
                                       ? format("(%d, up to %llu)", n_in, ull(kMostHeadInner))
                                       : format("(%d, %d)", n_in, n_out);
      bad_tensor(name, "shape " + expected, shape_text(shape));
    }
    for (const DType type : types) {
      if (type == tensor.type) {
        const Matrix m = {type, static_cast<int>(rows), n_in, tensor.bytes.data()};
        const std::string place = first_not_finite(m);
        if (!place.empty()) bad_tensor(name, "finite values", "a value that is none in " + place);
        return m;
      }
    }
    bad_tensor(name, joined(types, " or ", [](DType type) { return dtype_info(type)->name; }),
               dtype_info(tensor.type)->name);
  }

  // Of a published head: in the types that checkpoints have, or as they are converted.
  Matrix published_matrix(const std::string& name, int n_out, int n_in) {
    return matrix(name, n_out, n_in, {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0});
  }

  std::vector<int32_t> integers_of(const std::string& name, size_t most) {
    const GgufTensor& tensor = take(name);
    if (tensor.type != DType::kI32) bad_tensor(name, "I32", dtype_info(tensor.type)->name);
    if (tensor.shape.size() != 1 || tensor.shape[0] > most) {
      bad_tensor(name, format("shape (up to %zu)", most), shape_text(tensor.shape));
    }
    std::vector<int32_t> values(tensor.shape[0]);
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  // Distinct token ids; none when there is no such tensor.
  std::vector<int32_t> tokens(const std::string& name, int vocab_size) {
    if (!has(name)) return {};
    std::vector<int32_t> ids = integers_of(name, static_cast<size_t>(vocab_size));
    std::vector<bool> seen(vocab_size, false);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocab_size) {
        bad_tensor(name, format("token ids from 0 to %d", vocab_size - 1),
                   format("%d at %zu", ids[i], i));
      }
      if (seen[ids[i]]) bad_tensor(name, "each token once", format("%d again at %zu", ids[i], i));
      seen[ids[i]] = true;
    }
    return ids;
  }

  // None when there is no such tensor.
  std::vector<int32_t> text_tokens(int vocab_size) {
    const std::string name = kHeadsText;
    if (!has(name)) return {};
    std::vector<int32_t> ids = integers_of(name, kMostTextTokens);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < -1 || ids[i] >= vocab_size) {
        bad_tensor(name, format("token ids from 0 to %d, or -1", vocab_size - 1),
                   format("%d at %zu", ids[i], i));
      }
    }
    return ids;
  }

  // Draft tables, alone or with a chained head (`hybrid`), are what files held before `exit.text`.
  void refuse_table() const {
    const auto refuse = [this](const std::string& found) {
      throw Error(ErrorCode::kFormat,
                  format("%s: expected heads and a text to look up in, found %s of a draft table, "
                         "which specbound no longer reads",
                         file_.path().c_str(), found.c_str()));
    };
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name.starts_with("exit.table.")) {
        refuse("tensor '" + printable(tensor.name) + "'");
      }
    }
    for (const char* key : {"specbound.table.max_context", "specbound.table_tau"}) {
      if (file_.find(key)) refuse(format("key '%s'", key));
    }
    const auto kind = file_.get_string("specbound.kind");
    if (kind == "table" || kind == "hybrid") {
      refuse("key 'specbound.kind' = '" + std::string(*kind) + "'");
    }
  }

  void refuse_leftovers() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!taken_.count(tensor.name)) {
        bad_tensor(std::string(tensor.name), "only tensors of the heads it names", "this one");
      }
    }
  }

  [[noreturn]] void bad(const char* key, const std::string& expected,
                        const std::string& found) const {
    throw Error(ErrorCode::kFormat,
                format("%s: key '%s': expected %s, found %s", file_.path().c_str(), key,
                       expected.c_str(), found.c_str()));
  }
  [[noreturn]] void bad_tensor(const std::string& name, const std::string& expected,
                               const std::string& found) const {
    throw Error(ErrorCode::kFormat,
                format("%s: tensor '%s': expected %s, found %s", file_.path().c_str(),
                       printable(name).c_str(), expected.c_str(), found.c_str()));
  }

 private:
  [[noreturn]] void missing(const char* key, const std::string& expected) const {
    bad(key, expected, "no such key");
  }
  void check_count(const char* key, size_t found, size_t expected) const {
    if (found == expected) return;
    bad(key, format("%zu entries, one a head", expected), format("%zu", found));
  }
  const GgufTensor& take(const std::string& name) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (!tensor) bad_tensor(name, "a tensor", "none of this name");
    taken_.insert(tensor->name);
    return *tensor;
  }

  const Gguf& file_;
  std::set<std::string_view> taken_;
};

}  // namespace specbound
