// One connection: how long it may take to say what it wants, and to read what it gets, however
// small the parts are.
#include "server/socket_stream.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace socket_stream_test {

using namespace specbound::server;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr auto kLong = std::chrono::seconds(30);  // no limit is that far

// A server's end, and a client that does something every few milliseconds until it is told to stop.
class Connected {
 public:
  template <class Do>
  Connected(milliseconds pause, Do each) {
    rules.timeout = std::chrono::seconds(1);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_) == 0);
    const int small = 4096;
    setsockopt(fds_[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    client_ = std::thread([this, pause, each] {
      while (!stop_ && each(fds_[1])) std::this_thread::sleep_for(pause);
    });
  }
  ~Connected() {
    stop_ = true;
    shutdown(fds_[0], SHUT_RDWR);
    client_.join();
    close(fds_[0]);
    close(fds_[1]);
  }
  int fd() const { return fds_[0]; }

  ConnectionRules rules;

 private:
  int fds_[2] = {-1, -1};
  std::atomic<bool> stop_{false};
  std::thread client_;
};

}  // namespace

TEST_CASE("socket stream: who reads a little now and then is as slow as who never reads") {
  for (const size_t bytes : {size_t{0}, size_t{16}}) {
    CAPTURE(bytes);
    Connected to(milliseconds(20), [bytes](int fd) {
      char read[16];
      return bytes == 0 || recv(fd, read, bytes, 0) > 0;
    });
    SocketStream stream(to.fd(), to.rules);
    stream.begin_request(0);
    const std::string event(64, 'x');
    const Clock::time_point begun = Clock::now();
    bool read = true;
    while (read && Clock::now() < begun + kLong) read = stream.write(event.data(), event.size());
    CHECK_FALSE(read);
    CHECK(Clock::now() < begun + kLong);
  }
}

TEST_CASE("socket stream: in a crowd who does not read is waited for no longer than a moment") {
  Connected to(milliseconds(20), [](int) { return true; });
  to.rules.timeout = kLong;
  to.rules.crowded = true;
  SocketStream stream(to.fd(), to.rules);
  stream.begin_request(0);
  const std::string much(1 << 20, 'x');
  const Clock::time_point begun = Clock::now();
  CHECK_FALSE(stream.write(much.data(), much.size()));
  CHECK(Clock::now() < begun + kLong / 2);
}

TEST_CASE("socket stream: who reads gets all of it, however long it takes to be written") {
  std::atomic<size_t> got{0};
  Connected to(milliseconds(0), [&got](int fd) {
    char read[4096];
    const ssize_t n = recv(fd, read, sizeof read, 0);
    if (n > 0) got += static_cast<size_t>(n);
    return n > 0;
  });
  SocketStream stream(to.fd(), to.rules);
  stream.begin_request(0);
  const std::string part(100'000, 'x');
  for (int i = 0; i < 3; ++i) {
    CHECK(stream.write(part.data(), part.size()));
    std::this_thread::sleep_for(milliseconds(600));
  }
  CHECK(got == 3 * part.size());
}

TEST_CASE("socket stream: a request that comes byte by byte has one clock") {
  Connected to(milliseconds(30), [](int fd) { return send(fd, "x", 1, MSG_NOSIGNAL) == 1; });
  SocketStream stream(to.fd(), to.rules);
  CHECK(stream.wait_for_request());
  stream.begin_request(10'000);
  const Clock::time_point begun = Clock::now();
  char byte;
  size_t n = 0;
  while (stream.read(&byte, 1) == 1) ++n;
  CHECK(n > 0);
  CHECK(stream.timed_out());
  CHECK(Clock::now() < begun + kLong);
}

TEST_CASE("socket stream: in a crowd a new connection has a moment for its request, an old none") {
  Connected to(kLong, [](int fd) {
    std::this_thread::sleep_for(milliseconds(50));
    send(fd, "x", 1, MSG_NOSIGNAL);
    return false;
  });
  to.rules.new_when_crowded = kLong;
  to.rules.crowded = true;
  to.rules.crowd.set();
  SocketStream stream(to.fd(), to.rules);
  CHECK(stream.wait_for_request());
  stream.begin_request(1);
  char byte;
  CHECK(stream.read(&byte, 1) == 1);
  CHECK_FALSE(stream.wait_for_request());

  Connected silent(kLong, [](int) { return false; });
  silent.rules.new_when_crowded = milliseconds(10);
  silent.rules.crowded = true;
  silent.rules.crowd.set();
  SocketStream new_one(silent.fd(), silent.rules);
  const Clock::time_point begun = Clock::now();
  CHECK_FALSE(new_one.wait_for_request());
  CHECK(Clock::now() < begun + std::chrono::seconds(4));  // not the 5 s of an idle server
  silent.rules.stop.set();
  SocketStream stopped(silent.fd(), silent.rules);
  CHECK_FALSE(stopped.wait_for_request());
}

}  // namespace socket_stream_test
