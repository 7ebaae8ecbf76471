// The settings that a new heads file ships, when the model wrote texts to try them on: costs
// measured here, its replies looked at by the new heads, settings searched by replaying that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "app/loaded_model.h"
#include "model/exit_heads.h"
#include "train/features.h"

namespace specbound {

inline constexpr int64_t kShippedTuningTokens = 3000;  // of replies, about

struct ShippedSettings {
  HeadDefaults defaults;
  double speedup = 1;  // over plain decoding, by replay; defaults.w_max is 1 where nothing pays
  int tokens = 0;      // that were replayed
};

struct SelfWritten {
  std::span<const TrainingText> texts;  // by self_generate(): even ones greedy, odd ones sampled
  size_t first = 0;                     // those from here on may be used
  float temperature = 0;                // of the odd ones
  uint64_t seed = 0;
};

// Uses the newest texts first, about kShippedTuningTokens of them. Sampled ones are written anew:
// replay draws as a first reply does. nullopt when there is none to use. Throws Interrupted. The
// model must be loaded; its backend has no heads set afterwards.
std::optional<ShippedSettings> tune_shipped(LoadedModel& model, const ExitHeads& heads,
                                            const SelfWritten& written);

}  // namespace specbound
