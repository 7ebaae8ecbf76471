// Files of weights as Hugging Face stores them, mapped and never copied.
//
//   u64 size | JSON of that size, little-endian | data
//   JSON: { name: { "dtype", "shape": [slowest first], "data_offsets": [begin, end] }, ... },
//         offsets in bytes from the start of the data, and optionally "__metadata__": { ... }
//
// As the reference implementation (the `safetensors` crate) does, a file is refused unless its
// tensors, in the order of their offsets, cover the data without gap or overlap, each as large as
// dtype and shape ask for; here a name twice is refused too. The data may lie at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/mapped_file.h"
#include "numerics/dtype.h"

namespace specbound {

struct SafeTensor {
  std::string name;
  std::string dtype;          // as the file says: "BF16", "I64", ...
  std::optional<DType> type;  // F32, F16, BF16; none: nothing here reads its elements
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};

class Safetensors {
 public:
  // Throws Error(kFile | kFormat) naming the file, what was expected and what was found.
  static Safetensors open(const std::string& path);
  // The same over bytes that outlive it; `name` stands for the path.
  static Safetensors parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // by offset

 private:
  std::string path_;
  std::unique_ptr<MappedFile> file_;  // null when parsed from memory
  std::vector<SafeTensor> tensors_;
};

}  // namespace specbound
