// Work for the engine's thread, between it and the thread of the connection that waits for it. What
// comes of it waits in the job, so that a client that reads slowly holds up nobody.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "server/api_error.h"
#include "server/event_fd.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace specbound::server {

class Job {
 public:
  virtual ~Job() = default;

  // ---- the connection's side ----

  int news_fd() const { return news_.fd(); }  // readable while there are some
  // Nobody waits for it any more, or nobody may.
  void cancel() { cancelled_ = true; }

  // ---- the engine's side ----

  const std::atomic<bool>& cancelled() const { return cancelled_; }
  // Does a part of it, once in every step of the engine.
  enum class Progress {
    kGoesOn,
    kDone,
    kCancelled,  // it was ended by cancel() on the way
  };
  // Throws what has gone wrong: it is over.
  virtual Progress go_on(ServedModel& model, Metrics& metrics) = 0;
  // It is over, whatever came of it, or never begins: what it has of the model goes, on the
  // engine's thread.
  virtual void leave() {}
  // Nothing comes any more. `error`: for which it is over.
  void finish(std::optional<ApiError> error) {
    const std::lock_guard lock(mutex_);
    over_ = true;
    error_ = std::move(error);
    news_.set();
  }

 protected:
  // Under it stand what came, and the three below.
  std::mutex mutex_;
  bool over_ = false;
  std::optional<ApiError> error_;
  EventFd news_;

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace specbound::server
