// How far long work has come, on stderr. On a terminal a bar, redrawn ten times a second at most
// and not at all for work that is over before anyone could read it; elsewhere, in a log, a line
// every twenty seconds, also while a single step takes longer than that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "library/load_watcher.h"

namespace specbound {

// Where a Progress writes. Tests have their own.
struct ProgressOutput {
  bool terminal = false;                      // a bar, else lines
  std::chrono::milliseconds interval{20000};  // between lines
  std::function<void(const std::string& text)> write;
};
ProgressOutput stderr_progress();

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Unit { kBytes, kItems, kWork };

  // `label` stands in front; bytes are shown with their rate since the first update (slow ones with
  // the time left), items with their count, work with the time left.
  Progress(std::string label, Unit unit, ProgressOutput output = stderr_progress());
  ~Progress();  // erases the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `suffix` stands behind, as "loss 0.52".
  void update(size_t done, size_t total, const std::string& suffix = "");
  const std::string& label() const { return label_; }

 private:
  void begin(size_t done);
  void write_lines();

  const std::string label_;
  const Unit unit_;
  const ProgressOutput output_;
  const Clock::time_point start_;
  Clock::time_point drawn_at_;
  bool drawn_ = false;
  std::optional<size_t> begun_;  // done at the first update,
  Clock::time_point begun_at_;   // which was then

  // Of lines: what update() leaves for the thread that writes them.
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t done_ = 0, total_ = 0;
  std::string suffix_;
  bool end_ = false;
  std::thread writer_;
};

// The bar as text, without the carriage return: `label [#####     ]  50 %  1.2 GB/s`, or for work
// `label [#####     ]  50 %  1:05 left`. `begun` were there before.
std::string progress_bar(const std::string& label, Progress::Unit unit, size_t done, size_t total,
                         double seconds, size_t begun = 0);
// The same for a log, with a line end: `label: 50 %  1:05 left  loss 0.52`.
std::string progress_line(const std::string& label, Progress::Unit unit, size_t done, size_t total,
                          double seconds, const std::string& suffix, size_t begun = 0);

// A bar and lines on stderr, or with `quiet` warnings alone; Ctrl-C ends the loading.
LoadWatcher terminal_watcher(bool quiet = false);

}  // namespace specbound
