// Text that comes in: whole prompts from files and pipes, and lines of a conversation. Any bytes
// are text here, NUL and broken UTF-8 too; only sheer size is refused.
#pragma once

#include <cstddef>
#include <string>

namespace specbound {

inline constexpr size_t kMaxTextBytes = size_t{64} << 20;  // no context could hold more

// The whole of a file, or of stdin for "-", byte for byte. Throws Error(kFile | kLimit).
std::string read_bytes(const std::string& path);

// The same without one line end at the very end, because editors and `echo` put it there.
std::string read_text(const std::string& path);

// Lines from a file descriptor, without their ends (\n or \r\n).
class LineReader {
 public:
  enum class Status { kLine, kEnd, kInterrupted };

  // `wake_fd`: becoming readable interrupts the wait; -1 for none.
  LineReader(int fd, int wake_fd) : fd_(fd), wake_fd_(wake_fd) {}

  // Throws Error(kFile) when reading fails, Error(kLimit) for a line above kMaxTextBytes (which is
  // skipped: the next call gives the line after it).
  Status next(std::string& line);

 private:
  int fd_;
  int wake_fd_;
  std::string buffer_;
  size_t searched_ = 0;  // bytes of buffer_ known to hold no line end
  bool end_ = false;
  bool skipping_ = false;  // inside a line that is too long
};

}  // namespace specbound
