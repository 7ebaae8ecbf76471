// The one thread that makes replies: takes jobs from a fair queue, one at a time. What goes wrong
// with one is that one's answer; the thread goes on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
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
// what is asked, what its replies are so far, and how they ended. It waits here for the connection,
// so that a client that reads slowly holds up nobody.
class Job {
 public:
  Job(CompletionRequest request, Prompt prompt)
      : request_(std::move(request)), prompt_(std::move(prompt)) {}

  const CompletionRequest& request() const { return request_; }
  const Prompt& prompt() const { return prompt_; }

  // ---- the connection's side ----

  struct News {
    std::vector<ReplyPart> parts;   // since the last call: one reply after the other
    bool over = false;              // nothing comes any more
    std::optional<ApiError> error;  // for which it is over
  };
  int news_fd() const { return news_.fd(); }  // readable while there are some
  News take() {
    const std::lock_guard lock(mutex_);
    news_.clear();
    return {std::exchange(parts_, {}), over_, error_};
  }

  // Nobody waits for it any more, or nobody may.
  void cancel() { cancelled_ = true; }

  // ---- the engine's side ----

  const std::atomic<bool>& cancelled() const { return cancelled_; }
  void add_text(int index, std::string_view text) {
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    part(index).text += text;
    news_.set();
  }
  // Of a token of the reply whose text, or end, comes next: with that it goes out.
  void add_logprobs(TokenLogprobs logprobs) { logprobs_.push_back(std::move(logprobs)); }
  void end_reply(int index, const ReplyStats& figures) {
    const std::lock_guard lock(mutex_);
    part(index).figures = figures;
    news_.set();
  }
  void finish(std::optional<ApiError> error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    over_ = true;
    news_.set();
  }

 private:
  ReplyPart& part(int index) {
    if (parts_.empty() || parts_.back().index != index) parts_.push_back({.index = index});
    ReplyPart& newest = parts_.back();
    std::ranges::move(logprobs_, std::back_inserter(newest.logprobs));
    logprobs_.clear();
    return newest;
  }

  const CompletionRequest request_;
  const Prompt prompt_;
  std::atomic<bool> cancelled_{false};
  std::vector<TokenLogprobs> logprobs_;  // the engine's
  std::mutex mutex_;                     // of the three below
  std::vector<ReplyPart> parts_;
  bool over_ = false;
  std::optional<ApiError> error_;
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
  bool stopping();
  // What went wrong, if anything did.
  std::optional<ApiError> make(Job& job);
  bool make_reply(Job& job, int number);

  ServedModel& model_;
  Metrics& metrics_;
  FairQueue<std::shared_ptr<Job>> queue_;
  std::mutex mutex_;              // of the two below
  std::shared_ptr<Job> running_;  // nullptr: none
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace specbound::server
