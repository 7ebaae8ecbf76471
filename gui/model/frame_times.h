// How long frames take: the newest of them, for the overlay and for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace specbound::gui {

class FrameTimes {
 public:
  static constexpr double kPause = 0.25;  // seconds

  explicit FrameTimes(size_t keep = 600) : keep_(keep) {}

  // `work`: from the start of a frame until it was handed to the screen; `start`: when it began.
  void add(double start, double work) {
    ++frames_;
    keep(work_, work);
    if (last_start_ >= 0 && start - last_start_ < kPause) keep(interval_, start - last_start_);
    last_start_ = start;
  }
  void clear() {
    work_.clear();
    interval_.clear();
    last_start_ = -1;
  }

  uint64_t frames() const { return frames_; }
  size_t kept() const { return work_.size(); }
  // Of the kept ones, in seconds; 0 without any. share 0.5: the median.
  double work(double share) const { return quantile(work_, share); }
  // Between the starts of frames of one run: a pause because nothing changed ends a run.
  double interval(double share) const { return quantile(interval_, share); }

 private:
  // The smallest value that at least this share of all does not exceed.
  static double quantile(std::deque<double> values, double share) {
    if (values.empty()) return 0;
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    const size_t at = std::min(values.size() - 1, static_cast<size_t>(std::max(rank - 1, 0.0)));
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
    return values[at];
  }
  void keep(std::deque<double>& values, double value) const {
    values.push_back(value);
    if (values.size() > keep_) values.pop_front();
  }

  size_t keep_;
  uint64_t frames_ = 0;
  double last_start_ = -1;
  std::deque<double> work_, interval_;  // newest last
};

}  // namespace specbound::gui
