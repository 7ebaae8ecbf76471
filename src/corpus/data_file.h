// A file of training data as a stream of bytes, unpacked when it is .xz. Nothing is trusted: a
// truncated or damaged archive is refused by name, and its dictionary is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace specbound {

class DataFile {
 public:
  // Called with a descriptor before each read from it, which may block; may throw instead.
  using Wait = std::function<void(int fd)>;

  // "-": stdin. Throws Error(kFile).
  explicit DataFile(const std::string& path, Wait wait = nullptr);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  // Fills `into` from the front; the number of bytes, 0 at the end. Throws Error(kFile) when
  // reading fails, Error(kFormat) for an archive that is not whole, Error(kLimit) for one that
  // needs too much memory.
  size_t read(std::span<char> into);

  const std::string& name() const { return name_; }  // for messages
  uint64_t hash() const { return hash_; }            // of the bytes so far, unpacked

 private:
  struct Archive;
  size_t read_stored(std::span<char> into);
  size_t unpack(std::span<char> into);

  std::string name_;
  Wait wait_;
  int fd_ = -1;
  std::string head_;  // read already, to see what it is
  bool stored_end_ = false;
  std::unique_ptr<Archive> archive_;
  uint64_t hash_ = 0xcbf29ce484222325u;  // FNV-1a
};

}  // namespace specbound
