// What guesses say of candidates: the replies written again by the tree of all sources, whose odds
// learn from every candidate of a place. Where heads are asked is so decided as it will be.
// docs/architecture.md 3.4, 9.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "model/exit_heads.h"
#include "tune/fit_odds.h"

namespace specbound {

struct GuessOptions {
  std::function<bool(int32_t)> is_end;
  const std::atomic<bool>* abort = nullptr;
  std::function<void(int done, int total)> progress;  // replies
};

struct GuessCases {
  std::vector<OddsCase> cases;  // of candidates that a guess named or spoke against
  int left_out = 0;             // replies that came out otherwise: on a GPU a few may
};

// The backend must have `heads` set with the shortlist of `settings`, which draft. nullopt when
// aborted.
std::optional<GuessCases> guess_cases(Backend& backend, const ExitHeads& heads,
                                      const HeadDefaults& settings,
                                      std::span<const TuningText> texts,
                                      const GuessOptions& options);

}  // namespace specbound
