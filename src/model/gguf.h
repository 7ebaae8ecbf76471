// GGUF v2/v3 reader over one memory map. Nothing is copied: strings, arrays and tensors are views
// into the file, valid while the Gguf lives.
//
//   "GGUF" | u32 version | u64 n_tensors | u64 n_kv
//   n_kv      x { string key, u32 type, value }
//   n_tensors x { string name, u32 n_dims, u64 dims[n_dims], u32 dtype, u64 offset }
//   padding to general.alignment (default 32) | tensor data
//   string = u64 length, bytes; array = u32 element type, u64 count, elements; all little-endian
//
// A model cut into several files (gguf_split.h) is one Gguf: the metadata of the first, the tensors
// of all.
//
// Every count, length, offset and shape is checked with overflow-safe arithmetic against the file
// size before it is used; memory taken while parsing is bounded by the file's own size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/mapped_file.h"
#include "numerics/dtype.h"

namespace specbound {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
const char* gguf_type_name(GgufType type);

// What `bytes` hold of a type that is a number or bool; nullptr for a string or an array.
using GgufNumber = std::variant<std::nullptr_t, uint64_t, int64_t, double, bool>;
GgufNumber load_number(GgufType type, const std::byte* bytes);

// One metadata value. For arrays `type` is the element type, `is_array` is set, `count` elements
// lie in `bytes` (strings with their lengths in front). A single string's `bytes` are its text
// alone.
struct GgufValue {
  GgufType type = GgufType::kU8;
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;

  GgufNumber number() const { return is_array ? GgufNumber() : load_number(type, bytes.data()); }
};

// A shape as errors quote it: "(32, 64)".
std::string shape_text(std::span<const uint64_t> shape);

struct GgufTensor {
  std::string_view name;
  DType type;
  std::vector<uint64_t> shape;  // fastest-varying first, as in the file: {n_in, n_out} for a matrix
  std::span<const std::byte> bytes;
};

class Gguf {
 public:
  // Throws Error(kFile | kFormat | kUnsupported) naming the path, the place, what was expected and
  // what was found. kUnsupported: another version or byte order, a type number not known here. The
  // first file of a split model opens all of them, from beside it.
  static Gguf open(const std::string& path);
  // One file by itself, part of a split model or not.
  static Gguf open_file(const std::string& path);
  // The same over bytes in memory (`name` stands for the path); the bytes must outlive the Gguf and
  // start at an address divisible by 8, so that tensors are aligned in memory as in the file.
  static Gguf parse(std::span<const std::byte> bytes, const std::string& name);

  struct File {
    std::string path;
    uint64_t bytes;
    size_t n_tensors;
  };
  const std::vector<File>& parts() const { return parts_; }  // one, or those of a split model

  const std::string& path() const { return parts_.front().path; }
  uint32_t version() const { return version_; }
  uint64_t file_size() const;  // of all parts
  // Theirs as they were opened (MappedFile); empty when parsed from memory.
  std::string identity() const;

  // Takes over the tensors of `part`, the next file of this model. Throws Error(kFormat) for a name
  // that is here already.
  void append(Gguf part);

  // In file order.
  const std::vector<std::pair<std::string_view, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufValue* find(std::string_view key) const;           // null if absent
  const GgufTensor* find_tensor(std::string_view name) const;  // null if absent

  // Typed look-ups: nullopt if the key is absent; Error(kFormat) if it has another type or an
  // integer is out of range (any integer type widens; a float key accepts F32 and F64).
  std::optional<uint64_t> get_uint(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const;
  std::optional<std::vector<float>> get_floats(std::string_view key) const;  // array of F32
  std::optional<std::vector<int32_t>> get_ints(std::string_view key) const;  // array of I32 or U32

 private:
  std::vector<File> parts_;
  uint32_t version_ = 0;
  std::vector<std::unique_ptr<MappedFile>> files_;  // [parts], none when parsed from memory
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  // Ordered: of names that were made to collide each would be held against all others.
  std::map<std::string_view, size_t> key_index_, tensor_index_;
};

}  // namespace specbound
