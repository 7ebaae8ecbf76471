// The thread that the model lives on, and the two queues between it and the window. Nobody waits
// for the other side: commands are taken when the worker comes to them, between rounds at the
// latest where they are settings, events when the window draws next.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "gui/worker/messages.h"
#include "gui/worker/worker.h"

namespace specbound::gui {

// Reads a trace file, which may hold hundreds of megabytes. TraceOpened or TraceRefused; once
// `stop` is set it returns soon, with nothing of use.
WorkerEvent open_trace(const std::string& path, const std::atomic<bool>& stop);

class WorkerThread final : public WorkerCommands, private WorkerHost {
 public:
  // `trace`: the file of --trace, empty: none; throws Error(kFile) if it cannot be opened. `wake`
  // tells the window, from the worker's thread, that there are events; it is called once until they
  // are taken, and must not wait.
  WorkerThread(const std::string& trace, std::function<void()> wake);
  // Stops whatever is under way.
  ~WorkerThread() override;
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // What has happened since the last call, oldest first.
  std::vector<WorkerEvent> take_events();

  void load(const LoadRequest& request) override;
  void reply(const ReplyRequest& request) override { enqueue(request); }
  void compare(const ReplyRequest& request) override { enqueue(Comparison{request}); }
  void stop() override;
  void set_sampling(const SamplingParams& params) override { enqueue(WorkerSetting(params)); }
  void set_drafting(const DraftingChange& change) override { enqueue(WorkerSetting(change)); }
  void set_learning(bool on) override;
  void forget_conversation(const std::string& id) override;
  void set_guessing(bool on) override;
  void open_trace(const std::string& path) override;
  // The person does something: when it returns, idle learning takes no time any more, until nothing
  // was done for a while.
  void give_way();

 private:
  struct Comparison {
    ReplyRequest request;
  };
  using Task = std::variant<LoadRequest, ReplyRequest, Comparison, WorkerSetting>;
  struct Command {
    uint64_t number;
    Task task;
  };

  void run();
  void perform(const Task& task, bool stopped);
  void enqueue(Task task);
  void stop_all();
  bool load_waits() const;

  // ---- of WorkerHost, on the worker's thread ----
  void emit(WorkerEvent event) override;
  std::optional<WorkerSetting> next_setting() override;
  const std::atomic<bool>& abort_flag() const override { return abort_; }
  bool wanted_elsewhere() const override {
    return waiting_ || trace_waits_ || switch_waits_ || !guessing_;
  }
  void set_learner(std::shared_ptr<IdleLearner> learner) override;

  std::function<void()> wake_;
  Worker worker_;  // of the worker's thread

  std::mutex mutex_;  // of what follows, where it is not atomic
  std::condition_variable work_;
  std::deque<Command> commands_;
  uint64_t last_number_ = 0;          // of the newest command
  uint64_t stopped_up_to_ = 0;        // number of the last command that is to stop, or not to begin
  std::string trace_wanted_;          // while trace_waits_: the file
  bool learning_wanted_ = false;      // while switch_waits_: what it was put to
  std::vector<std::string> deleted_;  // conversations that are to be forgotten
  std::shared_ptr<IdleLearner> learner_;
  bool quit_ = false;
  std::vector<WorkerEvent> events_;
  bool woken_ = false;              // since events were taken last
  std::atomic<bool> abort_{false};  // what is under way is to stop
  std::atomic<bool> guessing_{false};
  std::atomic<bool> waiting_{false};  // something is in commands_, or it is time to quit
  // A trace is to be read in place of the one that is, or it is time to quit.
  std::atomic<bool> trace_waits_{false};
  std::atomic<bool> switch_waits_{false};  // that of learning, which was not taken yet
  std::thread thread_;                     // last: it uses all of this
};

}  // namespace specbound::gui
