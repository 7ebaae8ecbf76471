#include "server/job.h"

namespace specbound::server {

Job::News Job::take() {
  const std::lock_guard lock(mutex_);
  news_.clear();
  return {std::exchange(text_, {}), outcome_};
}

void Job::add_text(std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  text_ += text;
  news_.set();
}

void Job::finish(Outcome outcome) {
  const std::lock_guard lock(mutex_);
  outcome_ = std::move(outcome);
  news_.set();
}

}  // namespace specbound::server
