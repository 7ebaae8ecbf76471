// The one thread that works with the model: takes jobs from a fair queue, as many as the model has
// places for, and lets all of them come further in turn. What goes wrong with one is that one's
// answer; the thread goes on.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/api_error.h"
#include "server/fair_queue.h"
#include "server/job.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace specbound::server {

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
  bool admit();
  void step();
  void end(size_t job, std::optional<ApiError> error);
  bool stopping();

  ServedModel& model_;
  Metrics& metrics_;
  FairQueue<std::shared_ptr<Job>> queue_;
  std::mutex mutex_;  // of the two below, but for reading the first one on the thread, which alone
                      // changes it
  std::vector<std::shared_ptr<Job>> running_;  // in the order in which they came
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace specbound::server
