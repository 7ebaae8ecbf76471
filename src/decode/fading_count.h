// How often something that was tried turned out right, where the newest tries say most.
#pragma once

#include <algorithm>

namespace specbound {

struct FadingCount {
  double tried = 0, right = 0;

  // One more, of `most` that count at most.
  void add(bool is_right, double most) {
    fade(std::min(1.0, (most - 1) / std::max(tried, 1.0)));
    tried += 1;
    right += is_right ? 1 : 0;
  }
  // What was counted weighs `kept` times as much from now on.
  void fade(double kept) {
    tried *= kept;
    right *= kept;
  }
};

}  // namespace specbound
