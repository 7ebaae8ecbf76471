// What a token costs in plain decoding, from plain rounds measured on the way: the rate that a
// speculative reply is compared with. docs/architecture.md 1, 10.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace specbound {

class PlainRate {
 public:
  // Rounds from which on the rate is good for a comparison: one alone may have been interrupted.
  static constexpr int kEnough = 3;

  void add(int64_t ns) {
    if (recent_.size() < kWindow) {
      recent_.push_back(ns);
    } else {
      recent_[oldest_] = ns;
      oldest_ = (oldest_ + 1) % kWindow;
    }
  }

  // The sample: the newest rounds.
  int rounds() const { return static_cast<int>(recent_.size()); }
  // Seconds per token, the median of the sample, the faster of the middle two; 0 before the first.
  double seconds_per_token() const {
    if (recent_.empty()) return 0;
    std::vector<int64_t> sorted = recent_;
    const auto middle = sorted.begin() + static_cast<long>((sorted.size() - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return 1e-9 * static_cast<double>(*middle);
  }

 private:
  // Rounds of the sample at most. Few: those of another hour, or of a text of another length, go
  // with the next ones.
  static constexpr size_t kWindow = 15;

  std::vector<int64_t> recent_;
  size_t oldest_ = 0;  // the place of the next one, once the window is full
};

}  // namespace specbound
