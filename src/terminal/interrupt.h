// Ctrl-C as a request: the first one raises a flag that generation looks at and wakes whoever waits
// for input; a second one before the first was answered ends the process at once.
#pragma once

#include <signal.h>

#include <atomic>
#include <string>

namespace specbound {

// Installs the handler for SIGINT; SIGPIPE becomes a write error. May be called more than once.
void catch_interrupts();
// SIGTERM counts as a Ctrl-C from here on.
void catch_termination();

// While there is one, SIGTERM and SIGHUP count as a Ctrl-C that stays pending, so that what is to
// be kept is kept; at its end the signal does what it would have done. That takes ten seconds at
// most, and another signal ends the process at once. Those of half a second are one: terminals that
// close, their shells and `timeout` send it twice.
class OrderlyEnd {
 public:
  OrderlyEnd();
  ~OrderlyEnd();
  OrderlyEnd(const OrderlyEnd&) = delete;
  OrderlyEnd& operator=(const OrderlyEnd&) = delete;

  // Whether one has come.
  static bool begun();

 private:
  static constexpr int kSignals[] = {SIGTERM, SIGHUP};
  struct sigaction before_[2];
};

const std::atomic<bool>& interrupt_flag();
void clear_interrupt();
// Throws Interrupted while one is pending.
void check_interrupt(const std::string& message);

// Waits until `fd` has something to read, or is at its end, or a Ctrl-C is pending.
void wait_for_input(int fd);

// Readable while a Ctrl-C is pending: for poll() beside the input.
int interrupt_fd();

}  // namespace specbound
