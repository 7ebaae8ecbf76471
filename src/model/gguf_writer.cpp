#include "model/gguf_writer.h"

#include <cstring>
#include <utility>

#include "error.h"
#include "model/gguf.h"
#include "model/new_file.h"

namespace specbound {
namespace {

constexpr size_t kAlignment = 32;  // the format's default, so general.alignment need not be written

size_t padded(size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

// By resize and memcpy: g++ 12 takes vector::insert of a few bytes for an overflow at -O3.
void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  const size_t at = out.size();
  out.resize(at + bytes.size());
  if (!bytes.empty()) std::memcpy(out.data() + at, bytes.data(), bytes.size());
}

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  append_bytes(out, std::as_bytes(std::span(&value, 1)));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  append_bytes(out, std::as_bytes(std::span(text.data(), text.size())));
}

void append_key(std::vector<std::byte>& out, std::string_view key, GgufType type) {
  append_string(out, key);
  append(out, static_cast<uint32_t>(type));
}

void append_array_key(std::vector<std::byte>& out, std::string_view key, GgufType type,
                      size_t count) {
  append_key(out, key, GgufType::kArray);
  append(out, static_cast<uint32_t>(type));
  append(out, uint64_t{count});
}

// The bytes a tensor takes; 0 for a shape that no file can hold.
size_t tensor_bytes(DType type, std::span<const uint64_t> shape) {
  const DTypeInfo* info = dtype_info(type);
  if (!info || shape.empty() || shape.size() > 4 || shape[0] % info->block != 0) return 0;
  uint64_t n = shape[0] / info->block;
  bool overflow = __builtin_mul_overflow(n, uint64_t{info->bytes}, &n);
  for (uint64_t size : shape.subspan(1)) overflow |= __builtin_mul_overflow(n, size, &n);
  return overflow ? 0 : n;
}

}  // namespace

void GgufWriter::add_uint(std::string_view key, uint32_t value) {
  append_key(metadata_, key, GgufType::kU32);
  append(metadata_, value);
  ++n_metadata_;
}

void GgufWriter::add_float(std::string_view key, float value) {
  append_key(metadata_, key, GgufType::kF32);
  append(metadata_, value);
  ++n_metadata_;
}

void GgufWriter::add_bool(std::string_view key, bool value) {
  append_key(metadata_, key, GgufType::kBool);
  append(metadata_, uint8_t{value});
  ++n_metadata_;
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  append_key(metadata_, key, GgufType::kString);
  append_string(metadata_, value);
  ++n_metadata_;
}

void GgufWriter::add_ints(std::string_view key, std::span<const int32_t> values) {
  append_array_key(metadata_, key, GgufType::kI32, values.size());
  append_bytes(metadata_, std::as_bytes(values));
  ++n_metadata_;
}

void GgufWriter::add_floats(std::string_view key, std::span<const float> values) {
  append_array_key(metadata_, key, GgufType::kF32, values.size());
  append_bytes(metadata_, std::as_bytes(values));
  ++n_metadata_;
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string_view> values) {
  append_array_key(metadata_, key, GgufType::kString, values.size());
  for (std::string_view value : values) append_string(metadata_, value);
  ++n_metadata_;
}

void GgufWriter::add_value(std::string_view key, const GgufValue& value) {
  if (value.is_array) {
    append_array_key(metadata_, key, value.type, value.count);
  } else {
    append_key(metadata_, key, value.type);
    if (value.type == GgufType::kString) append(metadata_, uint64_t{value.bytes.size()});
  }
  append_bytes(metadata_, value.bytes);
  ++n_metadata_;
}

void GgufWriter::add_tensor(std::string_view name, DType type, std::span<const uint64_t> shape,
                            std::span<const std::byte> bytes) {
  SB_CHECK(!bytes.empty() && bytes.size() == tensor_bytes(type, shape));
  add_tensor(name, type, shape, [bytes](const Write& write) { write(bytes); });
}

void GgufWriter::add_tensor(std::string_view name, DType type, std::span<const uint64_t> shape,
                            Make make) {
  const size_t size = tensor_bytes(type, shape);
  SB_CHECK(size > 0);
  tensors_.push_back(
      {std::string(name), type, {shape.begin(), shape.end()}, size, std::move(make)});
}

void GgufWriter::make_tensors(const Write& write) const {
  static constexpr std::byte kZeros[kAlignment] = {};
  for (const Tensor& tensor : tensors_) {
    size_t left = tensor.size;
    tensor.make([&](std::span<const std::byte> bytes) {
      SB_CHECK(bytes.size() <= left);
      left -= bytes.size();
      write(bytes);
    });
    SB_CHECK(left == 0);
    write(std::span(kZeros, padded(tensor.size) - tensor.size));
  }
}

std::vector<std::byte> GgufWriter::header() const {
  std::vector<std::byte> out;
  append_bytes(out, std::as_bytes(std::span("GGUF", 4)));
  append(out, uint32_t{3});
  append(out, uint64_t{tensors_.size()});
  append(out, n_metadata_);
  append_bytes(out, metadata_);
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (uint64_t size : tensor.shape) append(out, size);
    append(out, static_cast<uint32_t>(tensor.type));
    append(out, offset);
    offset += padded(tensor.size);
  }
  out.resize(padded(out.size()));
  return out;
}

void GgufWriter::write(const std::string& path) const {
  NewFile file(path);
  file.write(header());
  make_tensors([&file](std::span<const std::byte> bytes) { file.write(bytes); });
  file.rename_over_target();
}

std::vector<std::byte> GgufWriter::serialize() const {
  std::vector<std::byte> out = header();
  make_tensors([&out](std::span<const std::byte> bytes) { append_bytes(out, bytes); });
  return out;
}

void write_gguf(const std::string& path, std::span<const std::byte> bytes) {
  NewFile file(path);
  file.write(bytes);
  file.rename_over_target();
}

}  // namespace specbound
