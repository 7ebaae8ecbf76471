// GGUF v3 writer. Metadata and tensors are collected, then written in one pass to a temporary file
// beside the target and renamed over it, so a crash never leaves half a file. Tensors that are made
// while they are written need no memory of their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/dtype.h"

namespace specbound {

struct GgufValue;

class GgufWriter {
 public:
  void add_uint(std::string_view key, uint32_t value);
  void add_float(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_ints(std::string_view key, std::span<const int32_t> values);
  void add_floats(std::string_view key, std::span<const float> values);
  void add_strings(std::string_view key, std::span<const std::string_view> values);
  // What another file has.
  void add_value(std::string_view key, const GgufValue& value);

  // `shape` fastest-varying first. `bytes` must stay valid until write(); their size must be what
  // type and shape ask for (SB_CHECK).
  void add_tensor(std::string_view name, DType type, std::span<const uint64_t> shape,
                  std::span<const std::byte> bytes);

  // The same with bytes that are made only when the file is written, so that it may be larger than
  // memory: `make` hands them to `write` in as many pieces as it likes, in all as many bytes as
  // type and shape ask for (SB_CHECK). What it throws leaves no file behind.
  using Write = std::function<void(std::span<const std::byte> bytes)>;
  using Make = std::function<void(const Write& write)>;
  void add_tensor(std::string_view name, DType type, std::span<const uint64_t> shape, Make make);

  // Throws Error(kFile).
  void write(const std::string& path) const;
  // The same file as bytes in memory.
  std::vector<std::byte> serialize() const;

 private:
  struct Tensor {
    std::string name;
    DType type;
    std::vector<uint64_t> shape;
    size_t size;  // bytes
    Make make;
  };
  // Hands over the bytes of all tensors, each padded to the alignment.
  void make_tensors(const Write& write) const;
  std::vector<std::byte> header() const;
  uint64_t n_metadata_ = 0;
  std::vector<std::byte> metadata_;
  std::vector<Tensor> tensors_;
};

// Writes what serialize() gave. Throws Error(kFile).
void write_gguf(const std::string& path, std::span<const std::byte> bytes);

}  // namespace specbound
