#include "server/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "error.h"

namespace specbound::server {

EventFd::EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) {
    throw Error(ErrorCode::kLimit, format("cannot make an event: %s", std::strerror(errno)));
  }
}

EventFd::~EventFd() {
  close(fd_);
}

void EventFd::set() {
  const uint64_t one = 1;
  const ssize_t ignored = write(fd_, &one, sizeof one);
  (void)ignored;
}

void EventFd::clear() {
  uint64_t count;
  const ssize_t ignored = read(fd_, &count, sizeof count);
  (void)ignored;
}

}  // namespace specbound::server
