// An open file or folder, closed with its owner, what is written to it, and the lock that one
// process at a time has on it.
#pragma once

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace specbound {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}  // -1: none
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

// All of the bytes. 0, or the errno for which that failed.
inline int write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// Takes its lock, which lasts until it is closed, unless another has it. Nobody has one where the
// file system knows no locks.
inline bool held_by_another(const Descriptor& file) {
  return flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Whether what is at `path` is still this file: another process may have put a new one there.
inline bool is_at(const Descriptor& file, const std::string& path) {
  struct stat mine = {}, there = {};
  return fstat(file.get(), &mine) == 0 && stat(path.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

}  // namespace specbound
