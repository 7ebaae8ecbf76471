// The other end of requests to an Api without HTTP, and the status that one ends with.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>

#include <functional>
#include <string>
#include <string_view>

#include "server/api.h"

namespace specbound::test {

using server::ApiError;

// A client that stays, or goes away after some writes.
class TestConnection final : public server::Connection {
 public:
  bool here = true;
  int writes_left = -1;  // -1: any number
  std::string written;

  bool wait(int fd, Time most) override {
    pollfd ready = {fd, POLLIN, 0};
    return here && poll(&ready, 1, static_cast<int>(most.count())) >= 0;
  }
  bool write(std::string_view bytes) override {
    if (writes_left == 0) return false;
    --writes_left;
    written += bytes;
    return true;
  }
};

inline int status_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ApiError& e) {
    return e.status();
  }
  return 200;
}

// The 400 that it ends with.
inline ApiError error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ApiError& e) {
    CHECK(e.status() == 400);
    return e;
  }
  FAIL("no error");
  return ApiError(0, "");
}

}  // namespace specbound::test
