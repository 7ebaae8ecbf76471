#include "system/text_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.h"

namespace specbound {

namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

// -1 with errno set on failure, 0 at the end.
ssize_t read_some(int fd, std::string& into) {
  const size_t old = into.size();
  into.resize(old + kReadBytes);
  ssize_t n;
  do {
    n = read(fd, into.data() + old, kReadBytes);
  } while (n < 0 && errno == EINTR);
  into.resize(old + (n > 0 ? n : 0));
  return n;
}

void cut_line_end(std::string& text) {
  if (!text.ends_with('\n')) return;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

}  // namespace

std::string read_bytes(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "stdin" : path;
  const int fd = is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot open: %s", name.c_str(), std::strerror(errno)));
  }
  std::string text;
  ssize_t n;
  while ((n = read_some(fd, text)) > 0 && text.size() <= kMaxTextBytes) {
  }
  const int error = errno;
  if (!is_stdin) close(fd);
  if (n < 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot read: %s", name.c_str(), std::strerror(error)));
  }
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorCode::kLimit, format("%s: expected at most %zu MiB of text, found more",
                                          name.c_str(), kMaxTextBytes >> 20));
  }
  return text;
}

std::string read_text(const std::string& path) {
  std::string text = read_bytes(path);
  cut_line_end(text);
  return text;
}

LineReader::Status LineReader::next(std::string& line) {
  for (;;) {
    const size_t at = buffer_.find('\n', searched_);
    if (at != std::string::npos || (end_ && !buffer_.empty())) {
      const size_t length = at != std::string::npos ? at + 1 : buffer_.size();
      line.assign(buffer_, 0, length);
      buffer_.erase(0, length);
      searched_ = 0;
      cut_line_end(line);
      if (!skipping_) return Status::kLine;
      skipping_ = false;
      continue;
    }
    if (end_) return Status::kEnd;
    searched_ = buffer_.size();
    if (buffer_.size() > kMaxTextBytes) {
      buffer_.clear();
      buffer_.shrink_to_fit();
      searched_ = 0;
      if (!skipping_) {
        skipping_ = true;
        throw Error(ErrorCode::kLimit,
                    format("a line is longer than %zu MiB: skipped", kMaxTextBytes >> 20));
      }
    }

    pollfd waits[2] = {{fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    const int ready = poll(waits, wake_fd_ >= 0 ? 2 : 1, -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready > 0 && wake_fd_ >= 0 && (waits[1].revents & POLLIN)) return Status::kInterrupted;
    const ssize_t n = read_some(fd_, buffer_);
    if (n < 0 && errno == EAGAIN) continue;
    if (n < 0) {
      throw Error(ErrorCode::kFile, format("stdin: cannot read: %s", std::strerror(errno)));
    }
    end_ = n == 0;
  }
}

}  // namespace specbound
