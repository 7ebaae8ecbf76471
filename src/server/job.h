// One request on its way through the engine, between the thread of its connection and the engine's:
// what is asked, the text so far, and how it ended. The text waits here for the connection, so that
// a client that reads slowly holds up nobody.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/event_fd.h"
#include "server/reply_json.h"
#include "server/served_model.h"

namespace specbound::server {

class Job {
 public:
  using Outcome = std::variant<ReplyStats, ApiError>;

  Job(CompletionRequest request, Prompt prompt)
      : request_(std::move(request)), prompt_(std::move(prompt)) {}

  const CompletionRequest& request() const { return request_; }
  const Prompt& prompt() const { return prompt_; }

  // ---- the connection's side ----

  struct News {
    std::string text;                // since the last call
    std::optional<Outcome> outcome;  // when it is over: nothing comes any more
  };
  int news_fd() const { return news_.fd(); }  // readable while there are some
  News take() {
    const std::lock_guard lock(mutex_);
    news_.clear();
    return {std::exchange(text_, {}), outcome_};
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
  std::optional<Outcome> outcome_;
  EventFd news_;
};

}  // namespace specbound::server
