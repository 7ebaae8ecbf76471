// How long frames take: the newest of them, for the overlay and for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specbound::gui {

class FrameTimes {
 public:
  explicit FrameTimes(size_t keep = 600) : keep_(keep) {}

  // `work`: from the start of a frame until it was handed to the screen; `start`: when it began.
  void add(double start, double work);
  void clear();

  uint64_t frames() const { return frames_; }
  size_t kept() const { return work_.size(); }
  // Of the kept ones, in seconds; 0 without any. share 0.5: the median.
  double work(double share) const { return quantile(work_, share); }
  // Between the starts of frames of one run: a pause because nothing changed ends a run.
  double interval(double share) const { return quantile(interval_, share); }

  static constexpr double kPause = 0.25;  // seconds

 private:
  static double quantile(std::vector<double> values, double share);
  void keep(std::vector<double>& values, size_t& next, double value) const;

  size_t keep_;
  uint64_t frames_ = 0;
  double last_start_ = -1;
  std::vector<double> work_, interval_;
  size_t next_work_ = 0, next_interval_ = 0;
};

}  // namespace specbound::gui
