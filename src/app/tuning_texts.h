// The replies that tuning looks at: the model's own, to a few openers of a chat or to the turns of
// dialogues in files. What `tune` and `theory` have in common.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/loaded_model.h"
#include "model/exit_heads.h"
#include "trace/cost_model.h"
#include "train/tuning_trace.h"

namespace specbound {

struct TuningTextFlags {
  std::vector<std::string> data;                // files; empty: the built-in openers
  int tokens = 4000;                            // of replies, all temperatures together
  int reply_tokens = 128;                       // of one reply at most
  std::vector<float> temperatures = {0, 0.7f};  // each gets its share
  uint64_t seed = 1;
};

// In turn of the temperatures, so that any first part has all of them. Throws Error for files that
// hold no text, Interrupted on Ctrl-C. The model must be loaded.
std::vector<TuningText> tuning_texts(LoadedModel& model, const TuningTextFlags& flags);

// The heads file of --heads, or the one beside the model. Throws Error(kFile) when there is none,
// saying how to make one, and what ExitHeads::open throws.
ExitHeads open_heads(const LoadedModel& model, const std::string& flag);

// measure_costs() behind a progress bar, at the mean context of `texts`, or in the middle of a chat
// without any. Throws Interrupted on Ctrl-C.
CostModel measure_costs_shown(LoadedModel& model, const ExitHeads* heads,
                              std::span<const TuningText> texts);

// "folded heads at layers 2,4, shortlist 1024, alpha 0.2, tau 0.5, up to 8 rows".
std::string describe_settings(const HeadDefaults& settings);

}  // namespace specbound
