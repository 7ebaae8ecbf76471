// Who is next when a place is free: clients take turns, and the requests of one client come in
// their order, so that one that sends many is not served before all others.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace specbound::server {

template <class T>
class FairQueue {
 public:
  explicit FairQueue(size_t limit) : limit_(limit) {}

  // False: `limit` of them wait, or it was closed.
  bool push(const std::string& client, T item) {
    const std::lock_guard lock(mutex_);
    if (closed_ || size_ >= limit_) return false;
    auto line = std::find_if(lines_.begin(), lines_.end(),
                             [&](const Line& l) { return l.client == client; });
    if (line == lines_.end()) line = lines_.insert(lines_.end(), Line{client, {}});
    line->items.push_back(std::move(item));
    ++size_;
    filled_.notify_one();
    return true;
  }

  // Waits for the next one; nullopt once it is closed.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return size_ > 0 || closed_; });
    if (closed_) return std::nullopt;
    return take();
  }

  // The next one, if one waits.
  std::optional<T> poll() {
    const std::lock_guard lock(mutex_);
    if (size_ == 0) return std::nullopt;
    return take();
  }

  // False: it is not waiting here.
  bool remove(const T& item) {
    const std::lock_guard lock(mutex_);
    for (auto line = lines_.begin(); line != lines_.end(); ++line) {
      const auto at = std::find(line->items.begin(), line->items.end(), item);
      if (at == line->items.end()) continue;
      line->items.erase(at);
      --size_;
      if (line->items.empty()) lines_.erase(line);
      return true;
    }
    return false;
  }

  // From here on nothing comes in or out. What was waiting.
  std::vector<T> close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    std::vector<T> left;
    for (Line& line : lines_) {
      std::move(line.items.begin(), line.items.end(), std::back_inserter(left));
    }
    lines_.clear();
    size_ = 0;
    filled_.notify_all();
    return left;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return size_;
  }

 private:
  struct Line {
    std::string client;
    std::deque<T> items;  // never empty
  };

  // Of some.
  T take() {
    const auto line = lines_.begin();
    T item = std::move(line->items.front());
    line->items.pop_front();
    --size_;
    if (line->items.empty()) {
      lines_.erase(line);
    } else {
      lines_.splice(lines_.end(), lines_, line);  // to the end of the round
    }
    return item;
  }

  const size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::list<Line> lines_;  // whose turn it is first
  size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace specbound::server
