// A program that works in idle time: at the lowest priority, in a process group of its own that is
// stopped and goes on at once, and never longer there than who started it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace specbound {

struct BackgroundCommand {
  std::string program;
  std::vector<std::string> arguments;  // behind the program's name
  std::string folder;                  // where it runs
  std::string log;                     // a file that it writes to, emptied before
};

class BackgroundProcess {
 public:
  BackgroundProcess() = default;
  ~BackgroundProcess() { kill(); }
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  // None runs. The thread that calls this must outlive the process: its end ends that too. Settings
  // from the environment (SPECBOUND_*) are not handed on. Throws Error(kLimit).
  void start(const BackgroundCommand& command);
  bool started() const { return pid_ > 0; }

  void stop();  // takes no more time from now on, until go_on()
  void go_on();
  void end();   // likewise, for good; ended() still tells
  void kill();  // ends it and waits; nothing where none runs
  // Its exit status, once; kBySignal and more: the signal that it died of, 0 where nobody knows
  // (SIGCHLD is ignored). It has been started.
  static constexpr int kBySignal = 128;
  std::optional<int> ended();

 private:
  pid_t pid_ = -1;
};

}  // namespace specbound
