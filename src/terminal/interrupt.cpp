#include "terminal/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "error.h"
#include "library/load_watcher.h"

namespace specbound {

namespace {

std::atomic<bool> pending{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // needed inside a signal handler
int wake_pipe[2] = {-1, -1};

// Of an orderly end.
constexpr unsigned kMostSeconds = 10;
constexpr int64_t kSameMs = 500;    // signals within it say one thing
std::atomic<int64_t> end_began{0};  // milliseconds; 0: it has not
std::atomic<int> end_signal{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);

void wake() {
  const ssize_t ignored = write(wake_pipe[1], "", 1);
  (void)ignored;
}

// Runs on whichever thread the signal hits, so a waiting poll() is woken through the pipe rather
// than by EINTR.
void on_interrupt(int) {
  const int saved = errno;
  if (pending.exchange(true)) _exit(130);
  wake();
  errno = saved;
}

int64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1000000;
}

// As if nobody had caught it; in its own handler when that returns.
void end_by(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

void on_end(int number) {
  const int saved = errno;
  int64_t began = 0;
  if (end_began.compare_exchange_strong(began, now_ms())) {
    end_signal = number;
    alarm(kMostSeconds);
    pending = true;
    wake();
  } else if (now_ms() - began > kSameMs) {
    end_by(number);
  }
  errno = saved;
}

void on_deadline(int) {
  end_by(end_signal);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

// One that whoever started us has us ignore, as nohup, stays ignored.
void handle_unless_ignored(int number, void (*handler)(int)) {
  struct sigaction before = {};
  if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  handle(number, handler);
}

}  // namespace

void catch_interrupts() {
  if (wake_pipe[0] < 0 && pipe2(wake_pipe, O_NONBLOCK | O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kLimit, format("cannot make a pipe: %s", std::strerror(errno)));
  }
  handle(SIGINT, on_interrupt);
  signal(SIGPIPE, SIG_IGN);
}

void catch_termination() {
  catch_interrupts();
  handle(SIGTERM, on_interrupt);
  handle_unless_ignored(SIGHUP, on_interrupt);
}

OrderlyEnd::OrderlyEnd() {
  catch_interrupts();
  handle(SIGALRM, on_deadline);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    handle_unless_ignored(kSignals[i], on_end);
  }
}

OrderlyEnd::~OrderlyEnd() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  if (begun()) raise(end_signal);
}

bool OrderlyEnd::begun() {
  return end_signal != 0;
}

const std::atomic<bool>& interrupt_flag() {
  return pending;
}

void clear_interrupt() {
  char drained[16];
  while (wake_pipe[0] >= 0 && read(wake_pipe[0], drained, sizeof drained) > 0) {
  }
  pending = false;
  if (!OrderlyEnd::begun()) return;
  pending = true;  // also where it began just now
  wake();
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
