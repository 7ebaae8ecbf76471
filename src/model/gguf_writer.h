// GGUF v3 writer. Metadata and tensors are collected, then written in one pass to a temporary file
// beside the target and renamed over it, so a crash never leaves half a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"

namespace specbound {

class GgufWriter {
 public:
  void add_uint(std::string_view key, uint32_t value);
  void add_float(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_ints(std::string_view key, std::span<const int32_t> values);
  void add_floats(std::string_view key, std::span<const float> values);
  void add_strings(std::string_view key, std::span<const std::string_view> values);

  // `shape` fastest-varying first. `bytes` must stay valid until write(); their size must be what
  // type and shape ask for (SB_CHECK).
  void add_tensor(std::string_view name, DType type, std::span<const uint64_t> shape,
                  std::span<const std::byte> bytes);

  // Throws Error(kFile).
  void write(const std::string& path) const;
  // The same file as bytes in memory.
  std::vector<std::byte> serialize() const;

 private:
  struct Tensor {
    std::string name;
    DType type;
    std::vector<uint64_t> shape;
    std::span<const std::byte> bytes;
  };
  std::vector<std::byte> header() const;
  uint64_t n_metadata_ = 0;
  std::vector<std::byte> metadata_;
  std::vector<Tensor> tensors_;
};

// Writes what serialize() gave. Throws Error(kFile).
void write_gguf(const std::string& path, std::span<const std::byte> bytes);

}  // namespace specbound
