// A progress bar on stderr: only on a terminal, redrawn ten times a second at most, and not at all
// for work that is over before anyone could read it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace specbound {

class Progress {
 public:
  enum class Unit { kBytes, kItems, kWork };

  // `label` stands in front; bytes are shown with GB/s, items with their count, work with the time
  // left.
  Progress(std::string label, Unit unit);
  ~Progress();  // erases the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `suffix` stands behind, as "loss 0.52".
  void update(size_t done, size_t total, const std::string& suffix = "");

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  Unit unit_;
  bool visible_;  // stderr is a terminal
  bool drawn_ = false;
  Clock::time_point start_, last_;
};

// The bar as text, without the carriage return: `label [#####     ]  50 %  1.2 GB/s`, or for work
// `label [#####     ]  50 %  1:05 left`.
std::string progress_line(const std::string& label, Progress::Unit unit, size_t done, size_t total,
                          double seconds);

}  // namespace specbound
