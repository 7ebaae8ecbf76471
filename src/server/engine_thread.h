// The one thread that makes replies: takes jobs from a fair queue, one at a time. What goes wrong
// with one is that one's answer; the thread goes on.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/event_fd.h"
#include "server/fair_queue.h"
#include "server/metrics.h"
#include "server/reply_json.h"
#include "server/served_model.h"

namespace specbound::server {

// One request on its way through the engine, between the thread of its connection and the engine's:
// what is asked, the text so far, and how it ended. The text waits here for the connection, so that
// a client that reads slowly holds up nobody.
class Job {
 public:
  using Outcome = std::variant<ReplyStats, ApiError>;

  Job(CompletionRequest request, Prompt prompt)
      : request_(std::move(request)), prompt_(std::move(prompt)) {}

  const CompletionRequest& request() const { return request_; }
  const Prompt& prompt() const { return prompt_; }

  // ---- the connection's side ----

  struct News {
    std::string text;                     // since the last call
    std::vector<TokenLogprobs> logprobs;  // of its tokens; they wait for text or the end
    std::optional<Outcome> outcome;       // when it is over: nothing comes any more
  };
  int news_fd() const { return news_.fd(); }  // readable while there are some
  News take() {
    const std::lock_guard lock(mutex_);
    news_.clear();
    News news{std::exchange(text_, {}), {}, outcome_};
    if (!news.text.empty() || news.outcome) news.logprobs = std::exchange(logprobs_, {});
    return news;
  }

  // Nobody waits for it any more, or nobody may.
  void cancel() { cancelled_ = true; }

  // ---- the engine's side ----

  const std::atomic<bool>& cancelled() const { return cancelled_; }
  void add_text(std::string_view text) {
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    text_ += text;
    news_.set();
  }
  void add_logprobs(TokenLogprobs logprobs) {
    const std::lock_guard lock(mutex_);
    logprobs_.push_back(std::move(logprobs));
  }
  void finish(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    news_.set();
  }

 private:
  const CompletionRequest request_;
  const Prompt prompt_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::string text_;
  std::vector<TokenLogprobs> logprobs_;
  std::optional<Outcome> outcome_;
  EventFd news_;
};

class EngineThread {
 public:
  // Both must outlive it. `max_waiting`: jobs in the queue.
  EngineThread(ServedModel& model, Metrics& metrics, size_t max_waiting);
  ~EngineThread();  // stop()
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Throws ApiError: 429 when the queue is full, 503 after stop().
  void submit(const std::string& client, const std::shared_ptr<Job>& job);
  // Out of the queue, or ended within a round.
  void cancel(const std::shared_ptr<Job>& job);
  // Ends what is under way; that and what waits fails with 503. Returns when the thread has ended.
  void stop();

  size_t waiting() const { return queue_.size(); }

 private:
  void run();
  Job::Outcome make(Job& job);

  ServedModel& model_;
  Metrics& metrics_;
  FairQueue<std::shared_ptr<Job>> queue_;
  std::mutex mutex_;              // of the two below
  std::shared_ptr<Job> running_;  // nullptr: none
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace specbound::server
