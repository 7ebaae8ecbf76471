// Idle learning as a front end has it: whether it may run for this model, whom to ask, heads that
// are taken into use, conversations that are learnt from. What works is an IdleLearner.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "learning/idle_learner.h"
#include "runtime/loaded_model.h"
#include "runtime/saved_conversation.h"
#include "runtime/speculation.h"

namespace specbound {

enum class LearningMode {
  kAsk,    // as was answered on this machine; where nobody was asked yet, offer() asks
  kOffer,  // it does not learn, but offer() asks likewise
  kOn,
  kOff
};

struct IdleLearningOptions {
  LearningMode mode = LearningMode::kOff;
  double idle_seconds = 20;  // see IdleLearnerOptions
  double minutes = 30;
  bool keeps_conversations = true;          // to learn from
  std::vector<std::string> questions = {};  // by which heads are measured
  std::string program = "/proc/self/exe";   // that does the work
};

// Bytes of memory that the process takes which learns for this model: what runs it, the output
// matrix as floats, the head while it learns.
double learning_bytes(const LoadedModel& model);

// What came of heads that were learnt.
struct HeadsNews {
  bool drafting = false;  // they draft from now on; else the line says why not
  std::string line;
};

class IdleLearning {
 public:
  // All must outlive it; the model is loaded, and `given` is what speculation was made of.
  IdleLearning(IdleLearningOptions options, const ModelOptions& model_options,
               const SpeculationOptions& given, LoadedModel& model, Speculation& speculation);

  ~IdleLearning();
  IdleLearning(const IdleLearning&) = delete;
  IdleLearning& operator=(const IdleLearning&) = delete;

  // Whether it learns now. `begin` and `set` say one line about it; empty: nothing to tell.
  bool active() const { return learner_ != nullptr; }
  std::string begin();
  std::string set(bool on);  // and remembers it
  std::string status() const;
  // Why never with this model; empty: it can.
  const std::string& cannot() const { return cannot_; }
  // What it brings and takes, for whoever is asked; `unless`: how conversations are kept out of it.
  std::string about(const std::string& unless = "") const;
  // Whether somebody is to be asked now: true once on a machine, where nothing but lookups drafts.
  bool asks();
  // The line that asks in a terminal, then: `about(unless)` and how it is switched on.
  std::optional<std::string> offer(const std::string& unless, const std::string& how);
  // What works, for other threads that see other work begin; nullptr: nothing does.
  std::shared_ptr<IdleLearner> learner() const { return learner_; }

  // Other work: a reply, or a key that was pressed.
  class Work {
   public:
    explicit Work(IdleLearning* learning) : learner_(learning ? learning->learner_ : nullptr) {
      if (learner_) learner_->begin_work();
    }
    ~Work() {
      if (learner_) learner_->end_work();
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    std::shared_ptr<IdleLearner> learner_;  // which it may be that switches learning off
  };

  // Between replies: takes heads that were learnt into use, once Speculation::takes_heads().
  // Sessions must be given the speculator again after that, whatever came of it.
  std::optional<HeadsNews> take_heads();
  // A conversation after each of its replies, but for what was said before anybody agreed: what is
  // learnt from is the last that was told of it, kept when kMostOpen others have come after it or
  // nothing more does. `id`: for forget(). Throws Error(kFile).
  static constexpr size_t kMostOpen = 8;
  void said(SavedConversation conversation, const std::string& id = "");
  // What was told with that id and is not kept yet is not learnt from.
  void forget(const std::string& id);

 private:
  struct Open {
    std::string id;
    SavedConversation conversation;
  };

  std::string refusal(bool there) const;
  std::string start();

  const IdleLearningOptions options_;
  const ModelOptions& model_options_;
  const LoadedModel& model_;
  Speculation& speculation_;
  std::string folder_;
  std::string cannot_;      // why never with this model; empty: it can
  bool offered_ = false;    // by this process
  std::vector<Open> open_;  // the newest last
  std::shared_ptr<IdleLearner> learner_;
};

}  // namespace specbound
