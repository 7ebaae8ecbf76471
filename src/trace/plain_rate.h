// What a token costs in plain decoding, from plain rounds measured on the way: the rate that a
// speculative reply is compared with. DESIGN 1, 10.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace specbound {

class PlainRate {
 public:
  void add(int64_t ns) {
    if (recent_.size() < kWindow) {
      recent_.push_back(ns);
    } else {
      recent_[static_cast<size_t>(rounds_) % kWindow] = ns;
    }
    ++rounds_;
  }

  int rounds() const { return rounds_; }  // ever measured
  // Seconds per token, the median of the newest rounds; 0 before the first.
  double seconds_per_token() const {
    if (recent_.empty()) return 0;
    std::vector<int64_t> sorted = recent_;
    const auto middle = sorted.begin() + static_cast<long>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return 1e-9 * static_cast<double>(*middle);
  }

 private:
  static constexpr size_t kWindow = 63;
  std::vector<int64_t> recent_;
  int rounds_ = 0;
};

}  // namespace specbound
