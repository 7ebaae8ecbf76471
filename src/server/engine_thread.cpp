#include "server/engine_thread.h"

#include <exception>
#include <new>

namespace specbound::server {

namespace {

ApiError leaving() {
  return ApiError(503, "the server is shutting down");
}

}  // namespace

EngineThread::EngineThread(ServedModel& model, Metrics& metrics, size_t max_waiting)
    : model_(model), metrics_(metrics), queue_(max_waiting), thread_([this] { run(); }) {}

EngineThread::~EngineThread() {
  stop();
}

void EngineThread::submit(const std::string& client, const std::shared_ptr<Job>& job) {
  if (queue_.push(client, job)) return;
  const std::lock_guard lock(mutex_);
  if (stopping_) throw leaving();
  throw ApiError(429, "the queue is full: try again soon", "", "queue_full");
}

void EngineThread::cancel(const std::shared_ptr<Job>& job) {
  job->cancel();
  queue_.remove(job);
}

void EngineThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (running_) running_->cancel();
  }
  for (const std::shared_ptr<Job>& job : queue_.close()) job->finish(leaving());
  if (thread_.joinable()) thread_.join();
}

void EngineThread::run() {
  while (std::optional<std::shared_ptr<Job>> job = queue_.pop()) {
    {
      const std::lock_guard lock(mutex_);
      running_ = *job;
      if (stopping_) running_->cancel();
    }
    metrics_.set_running(1);
    std::optional<ApiError> error = make(**job);
    metrics_.set_running(0);
    {
      const std::lock_guard lock(mutex_);
      running_.reset();
    }
    (*job)->finish(std::move(error));
  }
}

bool EngineThread::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

std::optional<ApiError> EngineThread::make(Job& job) {
  if (job.cancelled()) return leaving();  // between the queue and here: nobody looks at it
  try {
    const bool whole = job.make(model_, metrics_);
    if (!whole && stopping()) return leaving();
    return std::nullopt;  // one that is not whole has no client any more
  } catch (const ApiError& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return ApiError(500, "out of memory");
  } catch (const std::exception& e) {
    return ApiError(500, std::string("the engine failed: ") + e.what());
  } catch (...) {
    return ApiError(500, "the engine failed");
  }
}

}  // namespace specbound::server
