#include "terminal/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.h"
#include "runtime/load_watcher.h"

namespace specbound {

namespace {

std::atomic<bool> pending{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // needed inside a signal handler
int wake_pipe[2] = {-1, -1};

// Runs on whichever thread the signal hits, so a waiting poll() is woken through the pipe rather
// than by EINTR.
void on_interrupt(int) {
  const int saved = errno;
  if (pending.exchange(true)) _exit(130);
  const ssize_t ignored = write(wake_pipe[1], "", 1);
  (void)ignored;
  errno = saved;
}

// One that whoever started us has us ignore, as nohup, stays ignored.
void catch_signal(int number) {
  struct sigaction action = {};
  if (sigaction(number, nullptr, &action) == 0 && number == SIGHUP &&
      action.sa_handler == SIG_IGN) {
    return;
  }
  action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

}  // namespace

void catch_interrupts() {
  if (wake_pipe[0] < 0 && pipe2(wake_pipe, O_NONBLOCK | O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kLimit, format("cannot make a pipe: %s", std::strerror(errno)));
  }
  catch_signal(SIGINT);
  signal(SIGPIPE, SIG_IGN);
}

void catch_termination() {
  catch_interrupts();
  catch_signal(SIGTERM);
  catch_signal(SIGHUP);
}

const std::atomic<bool>& interrupt_flag() {
  return pending;
}

void clear_interrupt() {
  char drained[16];
  while (wake_pipe[0] >= 0 && read(wake_pipe[0], drained, sizeof drained) > 0) {
  }
  pending = false;
}

void check_interrupt(const std::string& message) {
  if (pending) throw Interrupted(message);
}

void wait_for_input(int fd) {
  pollfd wanted[] = {{fd, POLLIN, 0}, {interrupt_fd(), POLLIN, 0}};
  while (poll(wanted, 2, -1) < 0 && errno == EINTR) {
  }
}

int interrupt_fd() {
  return wake_pipe[0];
}

}  // namespace specbound
