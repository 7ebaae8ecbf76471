// An open file or folder, closed with its owner, and the lock that one process at a time has on it.
#pragma once

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
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
