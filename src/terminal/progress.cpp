#include "terminal/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "error.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"

namespace specbound {

namespace {

double share_of(size_t done, size_t total) {
  return total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1.0;
}

// "  1:05 left".
std::string time_left(double seconds) {
  const long whole = static_cast<long>(std::min(seconds, 359999.0));  // below 100 hours
  return whole < 3600 ? format("  %ld:%02ld left", whole / 60, whole % 60)
                      : format("  %ld:%02ld h left", whole / 3600, whole / 60 % 60);
}

// As fast as memory, or as a network: then with the time that is left.
std::string byte_rate(size_t done, size_t total, size_t begun, double seconds) {
  const double rate = static_cast<double>(done - std::min(begun, done)) / seconds;
  if (rate >= 0.1e9) return format("  %.1f GB/s", 1e-9 * rate);
  const std::string shown = format("  %.1f MB/s", 1e-6 * rate);
  const double left = static_cast<double>(total - std::min(done, total)) / rate;
  return rate > 0 && left >= 1 ? shown + time_left(left) : shown;
}

// " 50 %  1:05 left".
std::string figures(Progress::Unit unit, size_t done, size_t total, double seconds, size_t begun) {
  const double share = share_of(done, total);
  const std::string percent = format("%3.0f %%", 100 * share);
  switch (unit) {
    case Progress::Unit::kItems:
      return percent + format("  %zu/%zu", done, total);
    case Progress::Unit::kBytes:
      return seconds <= 0 ? percent : percent + byte_rate(done, total, begun, seconds);
    case Progress::Unit::kWork:
      break;
  }
  const double here = share - std::min(share, share_of(begun, total));  // done in these seconds
  if (here <= 0 || seconds <= 0) return percent;
  return percent + time_left(seconds * (1 - share) / here);
}

std::string behind(const std::string& suffix) {
  return suffix.empty() ? "" : "  " + suffix;
}

double seconds_between(Progress::Clock::time_point from, Progress::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

ProgressOutput stderr_progress() {
  ProgressOutput output;
  output.terminal = isatty(STDERR_FILENO) == 1;
  output.write = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
  return output;
}

Progress::Progress(std::string label, Unit unit, ProgressOutput output)
    : label_(std::move(label)),
      unit_(unit),
      output_(std::move(output)),
      start_(Clock::now()),
      drawn_at_(start_) {
  if (output_.terminal) return;
  try {
    writer_ = std::thread([this] { write_lines(); });
  } catch (const std::system_error&) {
    // Without a thread to spare the work matters more than its lines.
  }
}

Progress::~Progress() {
  if (drawn_) output_.write("\r\x1b[K");
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  writer_.join();
}

void Progress::begin(size_t done) {
  if (begun_) return;
  begun_ = done;
  begun_at_ = Clock::now();
}

void Progress::update(size_t done, size_t total, const std::string& suffix) {
  if (!output_.terminal) {
    const std::lock_guard lock(mutex_);
    begin(done);
    done_ = done;
    total_ = total;
    suffix_ = suffix;
    return;
  }
  begin(done);
  const Clock::time_point now = Clock::now();
  if (now - drawn_at_ < std::chrono::milliseconds(100)) return;
  drawn_at_ = now;
  drawn_ = true;
  output_.write("\r" +
                progress_bar(label_, unit_, done, total, seconds_between(begun_at_, now), *begun_) +
                behind(suffix) + "\x1b[K");
}

void Progress::write_lines() {
  std::unique_lock lock(mutex_);
  for (Clock::time_point next = start_ + output_.interval;; next += output_.interval) {
    if (ended_.wait_until(lock, next, [this] { return end_; })) return;
    // What has not begun is at 0 %, not done.
    const size_t total = std::max<size_t>(total_, done_ == 0 ? 1 : 0);
    const Clock::time_point now = Clock::now();
    const double seconds = begun_ ? seconds_between(begun_at_, now) : 0;
    const std::string line =
        progress_line(label_, unit_, done_, total, seconds, suffix_, begun_.value_or(0));
    next = std::max(next, now - output_.interval);  // lines that came too late are not made up for
    lock.unlock();  // who reads stderr slowly does not hold up the work
    output_.write(line);
    lock.lock();
  }
}

LoadWatcher terminal_watcher(bool quiet) {
  const auto bar = std::make_shared<std::optional<Progress>>();
  LoadWatcher terminal;
  terminal.quiet = quiet;
  terminal.progress = [bar, quiet](const std::string& label, size_t done, size_t total) {
    if (quiet) return;
    if (*bar && (*bar)->label() != label) bar->reset();
    if (!*bar) bar->emplace(label, Progress::Unit::kBytes);
    (*bar)->update(done, total);
    if (done >= total) bar->reset();
  };
  terminal.note = [bar](const std::string& line) {
    bar->reset();
    say(line);
  };
  terminal.abort = &interrupt_flag();
  return terminal;
}

std::string progress_bar(const std::string& label, Progress::Unit unit, size_t done, size_t total,
                         double seconds, size_t begun) {
  constexpr int kWidth = 24;
  const int full = static_cast<int>(share_of(done, total) * kWidth);
  return label + " [" + std::string(full, '#') + std::string(kWidth - full, ' ') + "] " +
         figures(unit, done, total, seconds, begun);
}

std::string progress_line(const std::string& label, Progress::Unit unit, size_t done, size_t total,
                          double seconds, const std::string& suffix, size_t begun) {
  return label + ": " + figures(unit, done, total, seconds, begun) + behind(suffix) + "\n";
}

}  // namespace specbound
