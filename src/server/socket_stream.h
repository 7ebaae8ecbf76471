// The bytes of one connection, with limits on how long a request may take to come in, how large it
// may be and how long an answer may wait to be read, and an eye on whether the other end is still
// there. Waiting ends early when the server stops.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

#include "server/event_fd.h"

namespace specbound::server {

// What all connections of a server have in common. The events stay set.
struct ConnectionRules {
  std::chrono::seconds timeout{30};
  std::atomic<bool> crowded{false};  // connections wait for a thread
  EventFd crowd;                     // set while they do
  // Then, for the first byte of a connection's first request.
  std::chrono::milliseconds new_when_crowded{500};
  std::atomic<bool> stopping{false};
  EventFd stop;    // set from then on
  EventFd failed;  // set when no connection is accepted any more though nobody stopped it
};

class SocketStream {
 public:
  // `fd` stays its owner's.
  SocketStream(int fd, ConnectionRules& rules) : fd_(fd), rules_(rules) {}

  int fd() const { return fd_; }

  // Waits for the first byte of the next request, for a while. False: there is none, or the thread
  // is needed elsewhere, which a new connection is given a moment for.
  bool wait_for_request();
  // From here on the clock of one request runs, which may bring `bytes`; later more().
  void begin_request(size_t bytes);
  void allow_more(size_t bytes) { allowed_ += bytes; }
  // Up to `size` bytes; 0 at the end, -1 for a failure, a limit or the time being up.
  ssize_t read(char* to, size_t size);
  bool timed_out() const { return timed_out_; }
  bool over_limit() const { return over_limit_; }

  // All of it, or false: the other end is gone or does not read. Nothing more goes out after that.
  // In how small parts it is written does not matter: who reads little each time is as slow.
  bool write(const char* from, size_t size);
  bool wrote() const { return wrote_; }
  void give_up() { broken_ = true; }  // nobody is there to be written to

  // Waits until `other` is readable, or for `most` (below 0: for ever). False: the other end went
  // away. One that closed its half alone counts as gone, for that looks the same as a process that
  // died.
  bool wait(int other, std::chrono::milliseconds most);

  // What is still coming in is read and dropped for a moment, so that the other end gets to see the
  // answer before the connection is reset.
  void drain();

 private:
  using Clock = std::chrono::steady_clock;

  // With the other end: until its request is there, and for each kWriteBytes to go out.
  std::chrono::milliseconds patience() const;
  bool wait_to_write();

  const int fd_;
  ConnectionRules& rules_;
  std::string buffer_;  // came in and is not read yet
  size_t at_ = 0;
  bool new_ = true;  // no request came yet
  Clock::time_point begun_;
  Clock::duration waited_{};  // to be read, since the last kWriteBytes went out
  size_t sent_ = 0;           // since then
  size_t allowed_ = 0;        // bytes that may still come in
  bool timed_out_ = false, over_limit_ = false, broken_ = false, wrote_ = false;
};

}  // namespace specbound::server
