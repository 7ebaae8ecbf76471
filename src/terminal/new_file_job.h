// What the commands that write one new model file have in common: progress that Ctrl-C ends, and
// how long it took.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "terminal/progress.h"

namespace specbound {

class NewFileJob {
 public:
  // Catches Ctrl-C from here on. `label` stands before the bar: "converting".
  explicit NewFileJob(const char* label);

  // Bytes done of all: for the work to call, while the job lives. Throws Interrupted after Ctrl-C.
  std::function<void(size_t done, size_t total)> progress();
  double seconds() const;  // since the job was made

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Progress bar_;
};

}  // namespace specbound
