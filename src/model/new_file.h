// A file that is there whole or not at all: written beside its target, then renamed over it, with
// the permissions of what stood there. Of a symbolic link the target is what it leads to.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace specbound {

class NewFile {
 public:
  // Throws Error(kFile), as all of it does.
  explicit NewFile(const std::string& target);
  ~NewFile();  // what was not renamed goes
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Waits for the disk, so that a power cut too leaves the old file or the new one; without
  // `lasting` it may leave half a file.
  void rename_over_target(bool lasting = true);

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string target_, path_;
  int fd_ = -1;
  bool renamed_ = false;
};

}  // namespace specbound
