// Signals that a line editor has to do with, as bytes in a pipe beside its input: a window that
// changed its size, and a process that goes on after it was stopped.
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

 private:
  static constexpr int kSignals[] = {SIGWINCH, SIGCONT};
  struct sigaction before_[2];
};

}  // namespace specbound
