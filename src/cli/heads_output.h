// The heads file that train-heads gives, checked before hours of work, and whole or not at all.
#pragma once

#include <string>

namespace specbound {

// A heads file may be written over, a model may not, and what is no file cannot be replaced by one.
// Throws Error(kFile).
void check_heads_output(const std::string& path);

// A name beside `target`, for what is renamed to it; removed if it is still there at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace specbound
