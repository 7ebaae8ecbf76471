#include "server/socket_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace specbound::server {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kIdle{5000};         // between two requests
constexpr milliseconds kWhenCrowded{2000};  // for a request to come in, for 64 KiB to go out
constexpr milliseconds kWhenStopping{1000};
// How often a thread that waits for its socket looks at what else goes on.
constexpr milliseconds kSlice{200};
constexpr size_t kReadBytes = size_t{16} << 10, kWriteBytes = size_t{64} << 10;
constexpr size_t kDrainBytes = size_t{64} << 20;

int poll_for(pollfd* fds, nfds_t n, milliseconds time) {
  int ready;
  do {
    ready = poll(fds, n, static_cast<int>(time.count()));
  } while (ready < 0 && errno == EINTR);
  return ready;
}

template <class Time>
milliseconds left_until(Time deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Time::clock::now());
  return std::clamp(left, milliseconds(0), kSlice);
}

}  // namespace

bool SocketStream::wait_for_request() {
  if (broken_ || rules_.stopping) return false;
  if (at_ < buffer_.size()) return true;
  pollfd fds[] = {{fd_, POLLIN, 0}, {rules_.stop.fd(), POLLIN, 0}, {rules_.crowd.fd(), POLLIN, 0}};
  int ready = poll_for(fds, 3, kIdle);
  const auto came = [&](int which) { return ready > 0 && fds[which].revents != 0; };
  // It waited for this thread itself: what it asks may be on its way still.
  if (new_ && came(2) && !came(0) && !came(1)) ready = poll_for(fds, 2, rules_.new_when_crowded);
  return came(0);
}

void SocketStream::begin_request(size_t bytes) {
  begun_ = Clock::now();
  new_ = false;
  const size_t here = buffer_.size() - at_;
  allowed_ = bytes - std::min(bytes, here);
  timed_out_ = over_limit_ = wrote_ = false;
  waited_ = {};
  sent_ = 0;
}

milliseconds SocketStream::patience() const {
  const milliseconds timeout = rules_.timeout;
  if (rules_.stopping) return std::min(timeout, kWhenStopping);
  return rules_.crowded ? std::min(timeout, kWhenCrowded) : timeout;
}

ssize_t SocketStream::read(char* to, size_t size) {
  if (at_ == buffer_.size()) {
    if (allowed_ == 0) over_limit_ = true;
    if (over_limit_ || timed_out_) return -1;
    pollfd ready = {fd_, POLLIN, 0};
    do {  // the whole request has one deadline: a byte now and then does not move it
      if (Clock::now() < begun_ + patience()) continue;
      timed_out_ = true;
      return -1;
    } while (poll_for(&ready, 1, left_until(begun_ + patience())) == 0);
    buffer_.resize(std::min(kReadBytes, allowed_));
    ssize_t n;
    do {
      n = recv(fd_, buffer_.data(), buffer_.size(), 0);
    } while (n < 0 && errno == EINTR);
    buffer_.resize(n > 0 ? static_cast<size_t>(n) : 0);
    at_ = 0;
    if (n <= 0) return n;
    allowed_ -= buffer_.size();
  }
  const size_t n = std::min(size, buffer_.size() - at_);
  std::memcpy(to, buffer_.data() + at_, n);
  at_ += n;
  return static_cast<ssize_t>(n);
}

bool SocketStream::write(const char* from, size_t size) {
  wrote_ = true;
  while (size > 0 && !broken_) {
    const ssize_t n = send(fd_, from, std::min(size, kWriteBytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      from += n;
      size -= static_cast<size_t>(n);
      sent_ += static_cast<size_t>(n);
      if (sent_ >= kWriteBytes) sent_ = 0, waited_ = {};
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      broken_ = !wait_to_write();
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
  return !broken_;
}

// For a while. False: the other end is gone, or has not read for too long.
bool SocketStream::wait_to_write() {
  const milliseconds most = patience();
  if (waited_ >= most) return false;
  const Clock::time_point begun = Clock::now();
  pollfd ready = {fd_, POLLOUT | POLLRDHUP, 0};
  const int n = poll_for(&ready, 1, left_until(begun + most - waited_));
  waited_ += Clock::now() - begun;
  return n >= 0 && (ready.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
}

bool SocketStream::wait(int other, milliseconds most) {
  pollfd fds[] = {{fd_, POLLRDHUP, 0}, {other, POLLIN, 0}};
  if (broken_ || poll_for(fds, 2, most) < 0 || fds[0].revents != 0) broken_ = true;
  return !broken_;
}

void SocketStream::drain() {
  if (broken_ || shutdown(fd_, SHUT_WR) != 0) return;
  const Clock::time_point deadline = Clock::now() + kWhenCrowded;
  char dropped[4096];
  size_t total = 0;
  while (total < kDrainBytes && Clock::now() < deadline && !rules_.crowded && !rules_.stopping) {
    pollfd ready = {fd_, POLLIN, 0};
    const int n_ready = poll_for(&ready, 1, left_until(deadline));
    if (n_ready < 0) return;
    if (n_ready == 0) continue;
    const ssize_t n = recv(fd_, dropped, sizeof dropped, MSG_DONTWAIT);
    if (n <= 0) return;
    total += static_cast<size_t>(n);
  }
}

}  // namespace specbound::server
