// Learns exit heads while nobody needs the machine. The work is done by the program itself in
// another process: `train-heads` writes text and learns from it, then `spec-bench` times what comes
// of it against what drafts now. That process is stopped as soon as there is other work and goes on
// when there was none for a while, so that nothing here ever waits for it; a second copy of the
// model and the head that learns are what it costs. Each round keeps what earlier ones wrote and
// takes longer; what was faster by the clock is kept, else nothing changes. A kill loses what the
// newest half minute did, and replies and hidden states that were not on the disk yet.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/learning_folder.h"
#include "system/background_process.h"

namespace specbound {

struct IdleLearnerOptions {
  std::string program;
  std::string folder;              // of the model (learning_folder()), there already
  std::vector<std::string> model;  // flags of the model: -m with a path from the root, and others
  std::vector<std::string> questions;  // by which heads are measured; not what is learnt
  double idle_seconds = 20;            // without work, before it begins or goes on
  double minutes = 30;                 // of the first round
  // Why not now, such as for want of memory; empty: it may. `there`: the process has its memory
  // already, and a word ends it while there is other work.
  std::function<std::string(bool there)> refusal;
};

// Heads that were faster by the clock than what drafted before.
struct LearntHeads {
  std::string path;
  double before = 0, now = 0;  // decoding, over plain decoding
};

class IdleLearner {
 public:
  // The lock is of options.folder. Idle time counts from now on.
  IdleLearner(IdleLearnerOptions options, LearningLock lock);
  ~IdleLearner();  // what is under way ends; the next one goes on with it
  IdleLearner(const IdleLearner&) = delete;
  IdleLearner& operator=(const IdleLearner&) = delete;

  // ---- any thread ----

  // Other work begins, or a key was pressed: when it returns, learning takes no time any more.
  void begin_work();
  // ... and is done: idle time counts from now on. Each answers one begin_work().
  void end_work();
  // Once for each: to be taken into use between replies.
  std::optional<LearntHeads> take_news();
  // "learning: 2 rounds done, writing and learning (stopped while there is other work)": one line.
  std::string status() const;
  // How much of this round's time for writing and learning has passed, 0 to 1; nullopt: it is at
  // something else, or between rounds.
  std::optional<double> share() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kNone, kLearning, kMeasuring };

  void run();
  void wait(std::unique_lock<std::mutex>& lock);
  void give_way(std::unique_lock<std::mutex>& lock);
  void begin_stage(std::unique_lock<std::mutex>& lock);
  void end_stage(std::unique_lock<std::mutex>& lock, int status);
  BackgroundCommand learning(int round);
  std::vector<std::string> round_arguments(int round) const;
  BackgroundCommand measuring();
  std::optional<LearntHeads> judged() const;
  bool has_time() const { return working_ == 0 && Clock::now() >= idle_from_; }
  std::string file(const char* name) const { return options_.folder + '/' + name; }

  const IdleLearnerOptions options_;
  const LearningLock lock_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool ending_ = false;
  int working_ = 0;
  Clock::time_point idle_from_;
  Stage stage_ = Stage::kNone;
  double round_seconds_ = 0;  // of kLearning
  bool asleep_ = false;       // the process is there, and stopped
  int rounds_ = 0, fruitless_ = 0, failures_ = 0;
  std::string trouble_;  // why nothing is learnt any more, or not now
  bool over_ = false;    // nothing is learnt any more
  std::optional<LearntHeads> news_;
  BackgroundProcess process_;
  std::thread thread_;  // starts the process, which ends with it
};

}  // namespace specbound
