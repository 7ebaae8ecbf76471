// A model and what is asked of it, one thing at a time: loading, replies, comparisons, changes of
// settings, the guesses of all layers. Everything that comes of it is an event, errors too. Of one
// thread: worker_thread.h runs it beside the window.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "gui/worker/messages.h"
#include "trace/recorder.h"

namespace specbound::gui {

using WorkerSetting = std::variant<SamplingParams, DraftingChange>;

// What a worker runs in.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;
  virtual void emit(WorkerEvent event) = 0;
  // The oldest setting that waits, if nothing waits before it; asked between rounds.
  virtual std::optional<WorkerSetting> next_setting() = 0;
  virtual const std::atomic<bool>& abort_flag() const = 0;  // ends what is under way
  // Something waits: no time for what nobody asked for.
  virtual bool wanted_elsewhere() const = 0;
  // Who is to give way at once when the person does something; nullptr: nobody. Never the last
  // owner of the one before.
  virtual void set_learner(std::shared_ptr<IdleLearner> learner) = 0;
};

class Worker {
 public:
  // Opens the trace file, unless `trace` is empty. Throws Error(kFile).
  Worker(WorkerHost& host, const std::string& trace);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Each says by events how it went; no Error leaves it.
  void load(const LoadRequest& request);
  void unload();  // on the thread that has loaded: a GPU is a thread's own
  void reply(const ReplyRequest& request);
  void compare(const ReplyRequest& request);
  void change(const WorkerSetting& setting);
  void set_learning(bool on);
  void forget_conversation(const std::string& id);
  // Between replies, now and then while it learns: says how far that is, and takes what came of it.
  void look_at_learning();

  // Whether rows of the newest reply are left that the layers have not been asked about, and some
  // of them, the newest ones first.
  bool can_guess() const { return unguessed_.end > unguessed_.begin; }
  void guess();

 private:
  struct Model;
  struct Reply;

  void attempt(const std::function<void()>& action);
  void open(const LoadRequest& request);
  Drafting drafting() const;
  void apply(const SamplingParams& params);
  void apply(const DraftingChange& change);

  Reply prepare(const ReplyRequest& request, uint64_t id) const;
  TraceReply settings_of(const Reply& reply) const;
  void make(Reply& reply);
  void generate(Reply& reply);
  void run_comparison(const ReplyRequest& request, uint64_t& side);
  GenerateOptions options_of(const Reply& reply) const;
  std::optional<GenerateStats> run_quietly(const Reply& reply, int max_tokens);
  bool warm_up(const Reply& plain, const Reply& speculative);
  void repeat(const Reply& plain, const Reply& speculative, ComparisonEnded& end);
  void remember(const Reply& reply);
  void learn_from(const ReplyRequest& request, const Reply& reply);

  void close_trace();
  void check_trace();

  WorkerHost& host_;
  std::optional<Recorder> trace_;
  bool trace_failed_ = false;
  SamplingParams sampling_;
  std::unique_ptr<Model> model_;
  Reply* under_way_ = nullptr;  // the one that a change of settings changes

  // Rows of the newest reply, by position, that are still to be looked at.
  struct Unguessed {
    uint64_t id = 0;
    int begin = 0, end = 0;
  } unguessed_;
};

}  // namespace specbound::gui
