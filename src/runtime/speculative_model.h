// A model and what drafts for it, in order of dependence: what a front end opens and loads before
// it has sessions.
#pragma once

#include <utility>

#include "runtime/loaded_model.h"
#include "runtime/speculation.h"

namespace specbound {

class SpeculativeModel {
 public:
  // Opens both, which is enough to make prompts. Throws what they throw.
  SpeculativeModel(const ModelOptions& model, const SpeculationOptions& speculation,
                   LoadWatcher watcher)
      : model_(model, std::move(watcher)), speculation_(speculation, model_) {}

  // Makes the backend, on which the drafter then drafts.
  void load() {
    model_.load(speculation_.heads(), speculation_.gpu_bytes());
    speculation_.attach(model_.backend());
  }

  LoadedModel& model() { return model_; }
  const LoadedModel& model() const { return model_; }
  Speculation& speculation() { return speculation_; }
  const Speculation& speculation() const { return speculation_; }

 private:
  LoadedModel model_;
  Speculation speculation_;
};

}  // namespace specbound
