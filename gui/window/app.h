// The desktop app put together: worker, state, views and window, and the loop that draws when
// something changed, at most 60 times a second, and sleeps otherwise.
#pragma once

#include <optional>
#include <string>

#include "learning/idle_learning.h"
#include "runtime/model_options.h"
#include "runtime/reply_options.h"
#include "runtime/speculation_options.h"

namespace specbound::gui {

struct AppFlags {
  ModelOptions model;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  IdleLearningOptions learning = {.mode = LearningMode::kAsk};
  int n_predict = -1;
  std::string system;
  std::string file;             // a model, a trace or a conversation to open; empty: none
  std::string trace;            // likewise
  std::string replay;           // likewise
  std::string ui_json;          // likewise
  std::optional<double> scale;  // pixels per point; without: the screen's
  std::optional<bool> dark;
  std::optional<int> width, height;
};

// Until the window is closed. Throws Error where no window can be opened, or --trace or --ui-json
// cannot be written; whatever happens afterwards is told in the window.
void run_app(const AppFlags& flags);

}  // namespace specbound::gui
