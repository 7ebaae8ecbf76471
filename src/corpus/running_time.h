// The time that this process ran. What passes while it is stopped (SIGSTOP, Ctrl-Z), or gets no
// processor for a second, is nobody's minute: a training in idle time must not lose by it.
// Processor time would not do: threads add up in it, and waiting for a GPU does not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace specbound {

class RunningTime {
 public:
  RunningTime();
  ~RunningTime();
  RunningTime(const RunningTime&) = delete;
  RunningTime& operator=(const RunningTime&) = delete;

  double seconds() const;  // since it was made

 private:
  using Clock = std::chrono::steady_clock;
  void tick();
  void add_until(Clock::time_point now) const;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable ends_;
  bool ending_ = false;
  mutable Clock::time_point newest_ = Clock::now();
  mutable Clock::duration ran_{};
  std::thread thread_;  // looks at the clock so often that a gap can only be a stop
};

// Of a clock that counts seconds; without one those that pass.
inline double seconds_now(const std::function<double()>& clock) {
  if (clock) return clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace specbound
