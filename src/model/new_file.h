// A file that is there whole or not at all: written beside its target, then renamed over it. Of a
// symbolic link the target is what it leads to.
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
  void rename_over_target();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string target_, path_;
  int fd_ = -1;
  bool renamed_ = false;
};

}  // namespace specbound
