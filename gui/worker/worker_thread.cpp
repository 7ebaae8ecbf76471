#include "gui/worker/worker_thread.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <utility>

#include "error.h"
#include "system/regular_file.h"
#include "trace/trace_reader.h"

namespace specbound::gui {

namespace {

constexpr std::chrono::seconds kLookAtLearning(1);

// What fits into the reader's memory is far shorter.
constexpr uint64_t kMostBytes = uint64_t{8} << 30;

// A file that ends early once it is to.
class StoppableFile final : public std::filebuf {
 public:
  explicit StoppableFile(const std::atomic<bool>& stop) : stop_(stop) {}

 protected:
  int_type underflow() override { return stop_ ? traits_type::eof() : std::filebuf::underflow(); }

 private:
  const std::atomic<bool>& stop_;
};

RecordedTrace read(const std::string& path, const std::atomic<bool>& stop) {
  check_regular(path, kMostBytes);
  const std::string name = printable(path);
  StoppableFile file(stop);
  if (!file.open(path, std::ios::in | std::ios::binary)) {
    throw Error(ErrorCode::kFile,
                format("%s: expected a trace file, found: %s", name.c_str(), std::strerror(errno)));
  }
  std::istream stream(&file);
  return read_trace(stream, name);
}

template <class... T>
bool is_any(const WorkerEvent& event) {
  return (std::holds_alternative<T>(event) || ...);
}

}  // namespace

WorkerEvent open_trace(const std::string& path, const std::atomic<bool>& stop) {
  try {
    return TraceOpened{path, std::make_shared<const RecordedTrace>(read(path, stop))};
  } catch (const std::bad_alloc&) {
    return TraceRefused{path, printable(path) + ": out of memory: expected a shorter trace"};
  } catch (const std::exception& e) {
    return TraceRefused{path, e.what()};
  }
}

WorkerThread::WorkerThread(const std::string& trace, std::function<void()> wake)
    : wake_(std::move(wake)), worker_(*this, trace), thread_([this] { run(); }) {}

WorkerThread::~WorkerThread() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    abort_ = true;
    waiting_ = true;
    trace_waits_ = true;
  }
  work_.notify_one();
  thread_.join();
}

std::vector<WorkerEvent> WorkerThread::take_events() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(events_, {});
}

// ---- the window's side ----

void WorkerThread::load(const LoadRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    stop_all();
    // Of the model before nobody has heard yet: it is this one's to tell.
    std::erase_if(events_, is_any<LoadProgress, ModelLoaded, LoadFailed, LearningChanged>);
    commands_.push_back({++last_number_, request});
    waiting_ = true;
  }
  work_.notify_one();
}

void WorkerThread::stop() {
  const std::lock_guard lock(mutex_);
  stop_all();
}

// With the lock held: what is under way, and what waits.
void WorkerThread::stop_all() {
  stopped_up_to_ = last_number_;
  abort_ = true;
}

void WorkerThread::set_guessing(bool on) {
  {
    const std::lock_guard lock(mutex_);
    guessing_ = on;
  }
  work_.notify_one();
}

// Apart from the other commands, as open_trace() is.
void WorkerThread::set_learning(bool on) {
  {
    const std::lock_guard lock(mutex_);
    learning_wanted_ = on;
    switch_waits_ = true;
  }
  work_.notify_one();
}

// Behind the reply under way, whichever conversation it is of; before whatever else waits.
void WorkerThread::forget_conversation(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    deleted_.push_back(id);
  }
  work_.notify_one();
}

void WorkerThread::give_way() {
  const std::lock_guard lock(mutex_);
  if (!learner_) return;
  learner_->begin_work();
  learner_->end_work();
}

// Apart from the other commands: settings of a reply under way are not to wait behind it.
void WorkerThread::open_trace(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    trace_wanted_ = path;
    trace_waits_ = true;
  }
  work_.notify_one();
}

void WorkerThread::enqueue(Task task) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back({++last_number_, std::move(task)});
    waiting_ = true;
  }
  work_.notify_one();
}

// ---- the worker's side ----

void WorkerThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto called = [&] {
      return quit_ || trace_waits_ || switch_waits_ || !deleted_.empty() || !commands_.empty() ||
             (guessing_ && worker_.can_guess());
    };
    if (!learner_) {
      work_.wait(lock, called);
    } else if (!work_.wait_for(lock, kLookAtLearning, called)) {
      lock.unlock();
      worker_.look_at_learning();
      lock.lock();
      continue;
    }
    if (!deleted_.empty()) {
      const std::vector<std::string> deleted = std::exchange(deleted_, {});
      lock.unlock();
      for (const std::string& id : deleted) worker_.forget_conversation(id);
    } else if (switch_waits_) {  // an answer holds though the window was closed right behind it
      const bool on = learning_wanted_;
      switch_waits_ = false;
      lock.unlock();
      worker_.set_learning(on);
    } else if (quit_) {
      break;
    } else if (trace_waits_) {
      const std::string path = std::move(trace_wanted_);
      trace_waits_ = false;
      lock.unlock();
      emit(gui::open_trace(path, trace_waits_));
    } else if (commands_.empty()) {
      lock.unlock();
      worker_.guess();
    } else {
      const Command command = std::move(commands_.front());
      commands_.pop_front();
      waiting_ = !commands_.empty();
      const bool stopped = command.number <= stopped_up_to_;
      abort_ = stopped;
      lock.unlock();
      perform(command.task, stopped);
    }
    lock.lock();
  }
  lock.unlock();
  worker_.unload();
}

// `stopped`: before it began.
void WorkerThread::perform(const Task& task, bool stopped) {
  if (const auto* setting = std::get_if<WorkerSetting>(&task)) {
    worker_.change(*setting);
  } else if (const auto* load = std::get_if<LoadRequest>(&task)) {
    worker_.load(*load);
  } else if (const auto* reply = std::get_if<ReplyRequest>(&task)) {
    if (!stopped) return worker_.reply(*reply);
    ReplyEnded ended;
    ended.id = reply->id;
    ended.stats.stop = StopReason::kAborted;
    emit(std::move(ended));
  } else if (const auto* comparison = std::get_if<Comparison>(&task)) {
    if (!stopped) return worker_.compare(comparison->request);
    ComparisonEnded ended;
    ended.stopped = true;
    emit(std::move(ended));
  }
}

std::optional<WorkerSetting> WorkerThread::next_setting() {
  if (!waiting_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto* next =
      commands_.empty() ? nullptr : std::get_if<WorkerSetting>(&commands_.front().task);
  if (!next) return std::nullopt;
  std::optional setting = *next;
  commands_.pop_front();
  waiting_ = quit_ || !commands_.empty();
  return setting;
}

void WorkerThread::set_learner(std::shared_ptr<IdleLearner> learner) {
  const std::lock_guard lock(mutex_);
  learner_ = std::move(learner);
}

bool WorkerThread::load_waits() const {
  return std::ranges::any_of(commands_, [](const Command& command) {
    return std::holds_alternative<LoadRequest>(command.task);
  });
}

void WorkerThread::emit(WorkerEvent event) {
  {
    const std::lock_guard lock(mutex_);
    if (is_any<LoadProgress, ModelLoaded, LoadFailed, LearningChanged>(event) && load_waits())
      return;  // another load follows: it is that one's to tell
    if (is_any<TraceOpened, TraceRefused>(event) && trace_waits_) return;
    // Only the newest of these is worth anything: a window that is not drawn must not gather them.
    const bool replaces = !events_.empty() && events_.back().index() == event.index() &&
                          is_any<LoadProgress, PromptRead, LearningChanged>(event);
    if (replaces) events_.pop_back();
    events_.push_back(std::move(event));
    if (std::exchange(woken_, true)) return;
  }
  wake_();
}

}  // namespace specbound::gui
