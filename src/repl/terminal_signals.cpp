#include "repl/terminal_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace specbound {

namespace {

int signal_pipe[2] = {-1, -1};

void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  const ssize_t ignored = write(signal_pipe[1], &byte, 1);
  (void)ignored;
  errno = saved;
}

}  // namespace

TerminalSignals::TerminalSignals() {
  if (signal_pipe[0] < 0) (void)pipe2(signal_pipe, O_NONBLOCK | O_CLOEXEC);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int i = 0; i < 2; ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

TerminalSignals::~TerminalSignals() {
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  while (const int number = take()) raise(number);  // came after the last look
}

int TerminalSignals::fd() {
  return signal_pipe[0];
}

int TerminalSignals::take() {
  unsigned char byte;
  return signal_pipe[0] >= 0 && read(signal_pipe[0], &byte, 1) == 1 ? byte : 0;
}

}  // namespace specbound
