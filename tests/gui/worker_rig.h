// a worker thread whose events a test waits for.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "gui/worker/worker_thread.h"

namespace specbound::gui {

inline std::string demo_model() {
  return std::string(SPECBOUND_MODELS) + "/demo-chat-16l-q8_0.gguf";
}

class WorkerRig {
 public:
  using Watch = std::function<void(const WorkerEvent&)>;
  static constexpr std::chrono::seconds kPatience{120};  // sanitizers are slow

  explicit WorkerRig(const std::string& trace = "") : worker_(trace, [this] { wake(); }) {}

  WorkerThread& operator*() { return worker_; }
  WorkerThread* operator->() { return &worker_; }

  // All events so far, in order.
  std::vector<WorkerEvent> events;

  // Calls `f` for every event from now on, on the worker's thread as it happens: what it asks of
  // the worker comes at that very moment. What is under way may end unseen by it.
  void watch(Watch f) {
    take();
    const std::lock_guard lock(mutex_);
    watch_ = f ? std::make_shared<Watch>(std::move(f)) : nullptr;
  }
  int wakes() const { return wakes_; }

  // Events until one of them satisfies `is`; that one, which is the newest.
  const WorkerEvent& until(const std::function<bool(const WorkerEvent&)>& is) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      for (; seen_ < events.size(); ++seen_) {
        if (is(events[seen_])) return events[seen_++];
      }
      take();
      if (seen_ < events.size()) continue;
      std::unique_lock lock(mutex_);
      REQUIRE_MESSAGE(woken_.wait_until(lock, deadline, [this] { return awake_; }),
                      "nothing more came from the worker");
      awake_ = false;
    }
  }
  template <class T>
  T next() {
    return std::get<T>(until([](const WorkerEvent& e) { return std::holds_alternative<T>(e); }));
  }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> result;
    for (const WorkerEvent& event : events) {
      if (const T* one = std::get_if<T>(&event)) result.push_back(*one);
    }
    return result;
  }

  ModelInfo load(const LoadRequest& request) {
    worker_.load(request);
    until([](const WorkerEvent& e) {
      return std::holds_alternative<ModelLoaded>(e) || std::holds_alternative<LoadFailed>(e);
    });
    const ModelLoaded* loaded = std::get_if<ModelLoaded>(&events[seen_ - 1]);
    REQUIRE_MESSAGE(loaded, all<LoadFailed>().back().message);
    return loaded->model;
  }
  ModelInfo load_demo(int n_threads = 1) {
    LoadRequest request;
    request.model.model = demo_model();
    request.model.n_threads = n_threads;
    request.speculation.specbound.preset = Preset::kShipped;  // not what tune found here
    request.speculation.controller = false;                   // nothing that depends on time
    return load(request);
  }
  // Nothing has happened.
  void forget_events() {
    events.clear();
    seen_ = 0;
  }
  // The text of a reply, as its rounds told it.
  std::string text(uint64_t id) const {
    std::string text;
    for (const RoundDone& done : all<RoundDone>()) {
      if (done.id != id) continue;
      for (const TokenRecord& token : done.round.tokens) text += token.text;
    }
    return text;
  }
  std::string answer(const ReplyRequest& request) {
    worker_.reply(request);
    next<ReplyEnded>();
    return text(request.id);
  }

 private:
  void take() {
    if (!watching()) {
      for (WorkerEvent& event : worker_.take_events()) events.push_back(std::move(event));
    }
    const std::lock_guard lock(mutex_);
    events.insert(events.end(), watched_.begin(), watched_.end());
    watched_.clear();
  }
  std::shared_ptr<const Watch> watching() {
    const std::lock_guard lock(mutex_);
    return watch_;
  }
  void wake() {
    const std::shared_ptr<const Watch> watch = watching();
    std::vector<WorkerEvent> seen;
    if (watch) seen = worker_.take_events();
    for (const WorkerEvent& event : seen) (*watch)(event);
    {
      const std::lock_guard lock(mutex_);
      watched_.insert(watched_.end(), seen.begin(), seen.end());
      awake_ = true;
      ++wakes_;
    }
    woken_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  bool awake_ = false;
  std::atomic<int> wakes_ = 0;
  std::shared_ptr<const Watch> watch_;
  std::vector<WorkerEvent> watched_;
  size_t seen_ = 0;
  WorkerThread worker_;  // last: it calls wake()
};

inline ReplyRequest ask(uint64_t id, const std::string& message, int max_tokens = -1) {
  ReplyRequest request;
  request.id = id;
  request.messages = {{ChatMessage::Role::kUser, message}};
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace specbound::gui
