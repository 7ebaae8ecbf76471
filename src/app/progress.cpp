#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "error.h"

namespace specbound {

Progress::Progress(std::string label, Unit unit)
    : label_(std::move(label)),
      unit_(unit),
      visible_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(size_t done, size_t total, const std::string& suffix) {
  if (!visible_) return;
  const Clock::time_point now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::fprintf(stderr, "\r%s%s%s\x1b[K", progress_line(label_, unit_, done, total, seconds).c_str(),
               suffix.empty() ? "" : "  ", suffix.c_str());
  std::fflush(stderr);
}

std::string progress_line(const std::string& label, Progress::Unit unit, size_t done, size_t total,
                          double seconds) {
  constexpr int kWidth = 24;
  const double share =
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1.0;
  const int full = static_cast<int>(share * kWidth);
  std::string line = label + " [" + std::string(full, '#') + std::string(kWidth - full, ' ') +
                     "] " + format("%3.0f %%", 100 * share);
  if (unit == Progress::Unit::kWork) {
    if (share <= 0 || seconds <= 0) return line;
    const double left = seconds * (1 - share) / share;
    const long whole = static_cast<long>(std::min(left, 359999.0));  // below 100 hours
    return whole < 3600 ? line + format("  %ld:%02ld left", whole / 60, whole % 60)
                        : line + format("  %ld:%02ld h left", whole / 3600, whole / 60 % 60);
  }
  if (unit == Progress::Unit::kItems) return line + format("  %zu/%zu", done, total);
  if (seconds > 0) line += format("  %.1f GB/s", static_cast<double>(done) / seconds * 1e-9);
  return line;
}

}  // namespace specbound
