#include "model/gguf_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "error.h"
#include "model/gguf.h"

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

// A temporary file beside the target: removed again unless it is renamed over the target.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : target_(target) {
    // Named by process so that two writers of one target never share it; a few numbers, because a
    // killed process of the same id may have left its own.
    for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
      path_ = format("%s.tmp-%d-%d", target.c_str(), static_cast<int>(::getpid()), attempt);
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ < 0 && errno != EEXIST) break;
    }
    if (fd_ < 0) fail("cannot create the temporary file beside it");
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot write the file");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }

  void rename_over_target() {
    if (::fsync(fd_) != 0) fail("cannot write the file to the disk");
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail("cannot close the file");
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot rename the written file");
    renamed_ = true;
    // The rename itself reaches the disk with the directory; some file systems cannot sync one, and
    // the file is whole either way.
    const size_t slash = target_.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
    const int directory_fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) return;
    ::fsync(directory_fd);
    ::close(directory_fd);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int error = errno;
    // The destructor does not run for an exception from the constructor; nothing exists then.
    throw Error(ErrorCode::kFile,
                format("%s: %s: %s", target_.c_str(), what, std::strerror(error)));
  }

  std::string target_, path_;
  int fd_ = -1;
  bool renamed_ = false;
};

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
  TemporaryFile file(path);
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
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_over_target();
}

}  // namespace specbound
