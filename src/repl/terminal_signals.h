// Signals that a line editor has to do with, as bytes in a pipe beside its input: a window that
// changed its size, a process that goes on after it was stopped, and those that end it, which must
// find the terminal as it was.
#pragma once

#include <signal.h>

namespace specbound {

class TerminalSignals {
 public:
  TerminalSignals();  // from here on
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // Readable while one has come. -1: no pipe could be had.
  static int fd();
  // The number of one that has come; 0: none.
  static int take();
  // What the signal would have done without this.
  void deliver(int signal_number);

 private:
  static constexpr int kSignals[] = {SIGWINCH, SIGCONT, SIGTERM, SIGHUP};
  struct sigaction before_[4];
};

}  // namespace specbound
