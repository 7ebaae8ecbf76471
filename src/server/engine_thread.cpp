#include "server/engine_thread.h"

#include <exception>
#include <new>

namespace specbound::server {

namespace {

ApiError leaving() {
  return ApiError(503, "the server is shutting down");
}

// What is told of what `work` throws.
template <class F>
std::optional<ApiError> failure_of(F work) {
  try {
    work();
    return std::nullopt;
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
    for (const std::shared_ptr<Job>& job : running_) job->cancel();
  }
  for (const std::shared_ptr<Job>& job : queue_.close()) job->finish(leaving());
  if (thread_.joinable()) thread_.join();
}

void EngineThread::run() {
  while (admit()) step();
}

// Jobs that there are places for; waits for one where there are none. False: none comes any more.
bool EngineThread::admit() {
  while (std::ssize(running_) < model_.places()) {
    const auto job = running_.empty() ? queue_.pop() : queue_.poll();
    if (!job) break;
    if ((*job)->cancelled()) {  // between the queue and here: nobody looks at it
      (*job)->finish(leaving());
      continue;
    }
    const std::lock_guard lock(mutex_);
    running_.push_back(*job);
    if (stopping_) running_.back()->cancel();
    metrics_.set_running(static_cast<int>(running_.size()));
  }
  return !running_.empty();
}

void EngineThread::step() {
  for (size_t i = 0; i < running_.size();) {
    auto progress = Job::Progress::kGoesOn;
    auto error = failure_of([&] { progress = running_[i]->go_on(model_, metrics_); });
    // One that is not whole has no client any more.
    if (progress == Job::Progress::kCancelled && stopping()) error = leaving();
    if (progress == Job::Progress::kGoesOn && !error) {
      ++i;
    } else {
      end(i, std::move(error));
    }
  }
  const auto error = failure_of([&] { model_.go_on(); });
  while (error && !running_.empty()) {
    // Copies would share their text among threads that know nothing of each other.
    end(0, ApiError(error->status(), error->what(), error->param(), error->code()));
  }
  const ServedModel::Kept kept = model_.kept();
  metrics_.set_kept(kept.conversations, kept.kv_bytes);
}

void EngineThread::end(size_t job, std::optional<ApiError> error) {
  const std::shared_ptr<Job> ended = running_[job];
  ended->leave();
  {
    const std::lock_guard lock(mutex_);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(job));
  }
  metrics_.set_running(static_cast<int>(running_.size()));
  ended->finish(std::move(error));
}

bool EngineThread::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace specbound::server
