#include "gui/engine/engine_thread.h"

#include <algorithm>
#include <utility>

#include "gui/engine/trace_file.h"

namespace specbound::gui {

namespace {

template <class T>
bool both(const EngineEvent& a, const EngineEvent& b) {
  return std::holds_alternative<T>(a) && std::holds_alternative<T>(b);
}

// Only the newest of these is worth anything: a window that is not drawn must not gather them.
bool replaces(const EngineEvent& before, const EngineEvent& event) {
  return both<LoadProgress>(before, event) || both<PromptRead>(before, event);
}

bool of_load(const EngineEvent& event) {
  return std::holds_alternative<LoadProgress>(event) ||
         std::holds_alternative<ModelLoaded>(event) || std::holds_alternative<LoadFailed>(event);
}

bool of_trace(const EngineEvent& event) {
  return std::holds_alternative<TraceOpened>(event) || std::holds_alternative<TraceRefused>(event);
}

}  // namespace

EngineThread::EngineThread(const std::string& trace, std::function<void()> wake)
    : wake_(std::move(wake)), engine_(*this, trace), thread_([this] { run(); }) {}

EngineThread::~EngineThread() {
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

std::vector<EngineEvent> EngineThread::take_events() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(events_, {});
}

// ---- the window's side ----

void EngineThread::load(const LoadRequest& request) {
  stop();
  enqueue(request);
}

void EngineThread::reply(const ReplyRequest& request) {
  enqueue(request);
}

void EngineThread::race(const ReplyRequest& request) {
  enqueue(Race{request});
}

void EngineThread::set_sampling(const SamplingParams& params) {
  enqueue(std::make_shared<const EngineSetting>(params));
}

void EngineThread::set_drafting(const DraftingChange& change) {
  enqueue(std::make_shared<const EngineSetting>(change));
}

void EngineThread::stop() {
  const std::lock_guard lock(mutex_);
  stopped_up_to_ = last_number_;
  abort_ = true;
}

void EngineThread::set_guessing(bool on) {
  {
    const std::lock_guard lock(mutex_);
    guessing_ = on;
  }
  work_.notify_one();
}

// Apart from the other commands: settings of a reply under way are not to wait behind it.
void EngineThread::open_trace(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    trace_wanted_ = path;
    trace_waits_ = true;
  }
  work_.notify_one();
}

void EngineThread::enqueue(Task task) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back({++last_number_, std::move(task)});
    waiting_ = true;
  }
  work_.notify_one();
}

// ---- the engine's side ----

void EngineThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] {
      return quit_ || trace_waits_ || !commands_.empty() || (guessing_ && engine_.can_guess());
    });
    if (quit_) break;
    if (trace_waits_) {
      const std::string path = std::move(trace_wanted_);
      trace_waits_ = false;
      lock.unlock();
      emit(gui::open_trace(path, trace_waits_));
    } else if (commands_.empty()) {
      lock.unlock();
      engine_.guess();
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
  engine_.unload();
}

// `stopped`: before it began.
void EngineThread::perform(const Task& task, bool stopped) {
  if (const auto* setting = std::get_if<Setting>(&task)) {
    engine_.change(**setting);
  } else if (const auto* load = std::get_if<LoadRequest>(&task)) {
    engine_.load(*load);
  } else if (const auto* reply = std::get_if<ReplyRequest>(&task)) {
    if (!stopped) return engine_.reply(*reply);
    ReplyEnded ended;
    ended.id = reply->id;
    ended.stats.stop = StopReason::kAborted;
    emit(std::move(ended));
  } else if (const auto* race = std::get_if<Race>(&task)) {
    if (!stopped) return engine_.race(race->request);
    RaceEnded ended;
    ended.stopped = true;
    emit(std::move(ended));
  }
}

EngineThread::Setting EngineThread::next_setting() {
  if (!waiting_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  const bool is_setting =
      !commands_.empty() && std::holds_alternative<Setting>(commands_.front().task);
  if (!is_setting) return nullptr;
  Setting setting = std::get<Setting>(std::move(commands_.front().task));
  commands_.pop_front();
  waiting_ = quit_ || !commands_.empty();
  return setting;
}

bool EngineThread::load_waits() const {
  return std::ranges::any_of(commands_, [](const Command& command) {
    return std::holds_alternative<LoadRequest>(command.task);
  });
}

void EngineThread::emit(EngineEvent event) {
  {
    const std::lock_guard lock(mutex_);
    if (of_load(event) && load_waits()) return;  // another load follows: it is that one's to tell
    if (of_trace(event) && trace_waits_) return;
    if (!events_.empty() && replaces(events_.back(), event)) events_.pop_back();
    events_.push_back(std::move(event));
    if (std::exchange(woken_, true)) return;
  }
  wake_();
}

}  // namespace specbound::gui
