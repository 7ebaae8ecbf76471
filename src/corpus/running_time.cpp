#include "corpus/running_time.h"

namespace specbound {

namespace {

constexpr std::chrono::milliseconds kTick(100);
constexpr std::chrono::seconds kGap(1);

}  // namespace

RunningTime::RunningTime() : thread_([this] { tick(); }) {}

RunningTime::~RunningTime() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

double RunningTime::seconds() const {
  const std::lock_guard lock(mutex_);
  add_until(Clock::now());
  return std::chrono::duration<double>(ran_).count();
}

void RunningTime::tick() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kTick, [this] { return ending_; })) add_until(Clock::now());
}

void RunningTime::add_until(Clock::time_point now) const {
  const Clock::duration passed = now - newest_;
  ran_ += passed < kGap ? passed : kTick;
  newest_ = now;
}

}  // namespace specbound
