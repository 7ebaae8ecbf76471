// Idle learning of the model that the worker has: what of it the window is told, and who is told to
// give way when the person does something. Of the worker's thread.
#pragma once

#include <string>

#include "gui/worker/messages.h"
#include "learning/idle_learning.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation.h"

namespace specbound::gui {

class WorkerHost;

class ModelLearning {
 public:
  // All must outlive it; the model is loaded as the request has it.
  ModelLearning(WorkerHost& host, const LoadRequest& request, LoadedModel& model,
                Speculation& speculation);
  ~ModelLearning();
  ModelLearning(const ModelLearning&) = delete;
  ModelLearning& operator=(const ModelLearning&) = delete;

  // By the answer of this machine or a flag, and says how it stands.
  void begin();
  void set(bool on);
  // What is told of it is told again where it has changed.
  void tell();
  // Between replies: one line where faster heads draft now, or why they cannot be used; sessions
  // must be given the speculator again then.
  std::optional<std::string> take_heads();
  // A reply to what was asked. It is also the time to ask whether to learn at all.
  void said(const ReplyRequest& request, const std::string& reply);
  // The conversation of that id was deleted.
  void forget(const std::string& id) { learning_.forget(id); }
  // While it is there nothing is learnt.
  IdleLearning::Work work() { return IdleLearning::Work(&learning_); }

 private:
  void take_line(std::string line);

  WorkerHost& host_;
  IdleLearning learning_;
  Learning told_;
  bool asked_ = false;
  std::string line_, gained_;
};

}  // namespace specbound::gui
