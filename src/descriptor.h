// An open file or folder, closed with its owner, what is written to it, and the lock that one
// process at a time has on it.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
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

// Programs take turns in a folder, from looking at a file to having put another in its place: this
// one's lasts as long as what it gets. Nobody waits where the file system knows no locks, nor
// longer than a second for a program that was stopped in its turn.
inline Descriptor in_turn(const std::string& folder) {
  Descriptor turn(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int tries = 0; turn && tries < 100 && held_by_another(turn); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return turn;
}

// Whether what is at `path` is still this file: another process may have put a new one there.
inline bool is_at(const Descriptor& file, const std::string& path) {
  struct stat mine = {}, there = {};
  return fstat(file.get(), &mine) == 0 && stat(path.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

}  // namespace specbound
