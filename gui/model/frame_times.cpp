#include "gui/model/frame_times.h"

#include <algorithm>
#include <cmath>

namespace specbound::gui {

void FrameTimes::keep(std::vector<double>& values, size_t& next, double value) const {
  if (values.size() < keep_) {
    values.push_back(value);
  } else {
    values[next] = value;
  }
  next = (next + 1) % keep_;
}

void FrameTimes::add(double start, double work) {
  ++frames_;
  keep(work_, next_work_, work);
  if (last_start_ >= 0 && start - last_start_ < kPause) {
    keep(interval_, next_interval_, start - last_start_);
  }
  last_start_ = start;
}

void FrameTimes::clear() {
  work_.clear();
  interval_.clear();
  next_work_ = next_interval_ = 0;
  last_start_ = -1;
}

double FrameTimes::quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  // The smallest value that at least this share of all does not exceed.
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t at = std::min(values.size() - 1, static_cast<size_t>(std::max(rank - 1, 0.0)));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

}  // namespace specbound::gui
