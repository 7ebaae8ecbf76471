// A condition that poll() can wait for beside a socket.
#pragma once

namespace specbound::server {

class EventFd {
 public:
  EventFd();  // Throws Error(kLimit) where the system has no descriptor left.
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  int fd() const { return fd_; }  // readable while it is set
  void set();
  void clear();

 private:
  int fd_;
};

}  // namespace specbound::server
