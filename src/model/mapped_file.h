// A file mapped read-only into memory. Opening refuses directories, FIFOs, devices and empty files
// with one clear Error; it never blocks on a FIFO.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace specbound {

class MappedFile {
 public:
  // Throws Error(kFile).
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Which file it is and when it last changed, as it was when it was opened: another that has come
  // to its path, and itself written again, have another.
  const std::string& identity() const { return identity_; }

 private:
  std::string path_, identity_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace specbound
