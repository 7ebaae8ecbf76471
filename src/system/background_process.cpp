#include "system/background_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "error.h"

extern char** environ;

namespace specbound {

namespace {

constexpr int kLowest = 19;                      // of nice values
constexpr int kCannotStart = 127;                // as shells have it
constexpr std::string_view kFirstToGo = "1000";  // where memory runs out

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// The child, between fork and exec: only what is safe there.
[[noreturn]] void run(const BackgroundCommand& command, char* const* arguments,
                      char* const* environment, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);  // it died before that
  setpgid(0, 0);
  const int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (oom >= 0) (void)!write(oom, kFirstToGo.data(), kFirstToGo.size());
  setpriority(PRIO_PROCESS, 0, kLowest);
  const sched_param none = {};
  sched_setscheduler(0, SCHED_IDLE, &none);  // where it is refused, nice does
  sigset_t all;
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int log =
      open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (nothing < 0 || log < 0 || chdir(command.folder.c_str()) != 0) _exit(kCannotStart);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
#ifdef SYS_close_range
  syscall(SYS_close_range, 3, ~0U, 0);  // a connection would stay open for as long as it runs
#endif
  execve(command.program.c_str(), arguments, environment);
  _exit(kCannotStart);
}

}  // namespace

void BackgroundProcess::start(const BackgroundCommand& command) {
  SB_CHECK(!started());
  std::vector<std::string> words = {"specbound"}, variables;
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  for (char** variable = environ; *variable; ++variable) {
    if (!std::string_view(*variable).starts_with("SPECBOUND_")) variables.emplace_back(*variable);
  }
  const std::vector<char*> arguments = pointers(words), environment = pointers(variables);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    throw Error(ErrorCode::kLimit,
                format("cannot start another process: %s", std::strerror(errno)));
  }
  if (pid == 0) run(command, arguments.data(), environment.data(), parent);
  setpgid(pid, pid);  // whoever comes first: a signal to the group must find it
  pid_ = pid;
}

void BackgroundProcess::stop() {
  if (started()) ::kill(-pid_, SIGSTOP);
}

void BackgroundProcess::go_on() {
  if (started()) ::kill(-pid_, SIGCONT);
}

void BackgroundProcess::end() {
  if (started()) ::kill(-pid_, SIGKILL);
}

void BackgroundProcess::kill() {
  if (!started()) return;
  end();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::optional<int> BackgroundProcess::ended() {
  SB_CHECK(started());
  int status = 0;
  const pid_t found = waitpid(pid_, &status, WNOHANG);
  if (found == 0) return std::nullopt;
  pid_ = -1;
  if (found < 0) return kBySignal;  // somebody else was told
  return WIFEXITED(status) ? WEXITSTATUS(status) : kBySignal + WTERMSIG(status);
}

}  // namespace specbound
