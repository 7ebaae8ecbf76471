// The replies that tuning looks at: the model's own, to a few openers of a chat or to the turns of
// dialogues in files. What `tune` and `theory` have in common.
#pragma once

#include <string>
#include <vector>

#include "runtime/loaded_model.h"
#include "tune/tuning_trace.h"

namespace specbound {

struct TuningTextOptions {
  std::vector<std::string> data;                // files; empty: the built-in openers
  int tokens = 4000;                            // of replies, all temperatures together
  int reply_tokens = 128;                       // of one reply at most
  std::vector<float> temperatures = {0, 0.7f};  // each gets its share
  uint64_t seed = 1;
};

// In turn of the temperatures, so that any first part has all of them. Throws Error for files that
// hold no text, Interrupted on Ctrl-C. The model must be loaded.
std::vector<TuningText> tuning_texts(LoadedModel& model, const TuningTextOptions& options);

}  // namespace specbound
