// The steps of tuning behind progress bars, for `tune`, `theory` and `train-heads`: heads, costs
// measured here, replies looked at by the heads, settings searched by replaying that, the winner
// against plain decoding; odds fitted to the replies. Each throws Interrupted on Ctrl-C; models
// must be loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "corpus/features.h"
#include "model/exit_heads.h"
#include "runtime/loaded_model.h"
#include "trace/cost_model.h"
#include "train/head_trainer.h"
#include "tune/fit_odds.h"
#include "tune/measure_overlap.h"
#include "tune/measure_speedup.h"
#include "tune/tune.h"
#include "tune/tuning_trace.h"

namespace specbound {

// The heads file `path`, or where it is empty the one beside the model. Throws Error(kFile) when
// there is none, saying how to make one, and what ExitHeads::open throws.
ExitHeads open_heads(const LoadedModel& model, const std::string& path);
// The same where a file of text alone will do, and where none was named and none is there, nothing.
std::optional<ExitHeads> find_heads(const LoadedModel& model, const std::string& path);

// At the mean context of `texts`, or in the middle of a chat without any.
CostModel measure_costs_shown(LoadedModel& model, const ExitHeads* heads,
                              std::span<const TuningText> texts);
TuningTrace record_shown(LoadedModel& model, const ExitHeads& heads,
                         std::span<const TuningText> texts);
TuneOutcome tune_shown(const TuningTrace& trace, const CostModel& costs, TuneOptions options = {});
// Leaves `heads` set with the shortlist of `settings`.
MeasuredSpeedup measure_speedup_shown(LoadedModel& model, const ExitHeads& heads,
                                      const HeadDefaults& settings, const CostModel& costs,
                                      std::span<const TuningText> texts);

// What drafters have of the model's distribution along `texts`: `heads` with `shortlist` tokens of
// their list, all of it where it is 0, or lenses where there are none; a draft model. Leaves heads
// set so.
OverlapReport measure_overlap_shown(LoadedModel& model, const ExitHeads* heads, int shortlist,
                                    Backend* draft_model, std::span<const TuningText> texts);

// The odds of candidates, by what lookups would have found in `texts` and in the text of `heads`.
// Where these guess with `settings`, which may be nullptr, by their guesses too; `heads` are then
// set with the shortlist of these.
FittedOdds fit_odds_shown(LoadedModel& model, const ExitHeads* heads, const HeadDefaults* settings,
                          std::span<const TuningText> texts);

// ---- the settings that a new heads file ships ----

// Guessed from what its heads did on the rows kept for validation, a start that works until
// something was measured: the head, threshold and depth of the highest speed under a plain model of
// costs, where a layer costs the same for a few rows as for one, and a check little. `shortlist`:
// of the file.
HeadDefaults guess_defaults(const std::vector<HeadReport>& reports, int n_layers, int shortlist);

// Draft layers are no part of settings that are replayed: one becomes the kind where its chains are
// right for so much longer than those of the kind that settings are for that its block, and of an
// adapter the layers before it for each draft, cost less, under that plain model. Whether one does.
bool prefer_layer(const std::vector<HeadReport>& reports, int n_layers, HeadDefaults& settings);

// Those that are found by trying them on texts that the model wrote.
inline constexpr int64_t kShippedTuningTokens = 3000;  // of replies, about

struct ShippedSettings {
  HeadDefaults defaults;
  double speedup = 1;  // over plain decoding, by replay; defaults.w_max is 1 where nothing pays
  int tokens = 0;      // that were replayed
};

struct SelfWritten {
  std::span<const TrainingText> texts;  // by self_generate()
  size_t first = 0;                     // those from here on may be used
  float temperature = 0;                // of those that are not greedy
  uint64_t seed = 0;
  std::function<bool()> time_is_up;  // none is written any more
};

// Uses the newest texts first, about kShippedTuningTokens of them, one of those to the same prompt
// that stand together. Sampled ones are written anew, as long as there is time: replay draws as a
// first reply does. nullopt when there is none to use. Throws Interrupted. The model must be
// loaded; its backend has no heads set afterwards.
std::optional<ShippedSettings> tune_shipped(LoadedModel& model, const ExitHeads& heads,
                                            const SelfWritten& written);

}  // namespace specbound
