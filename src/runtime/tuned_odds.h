// The odds of candidates that `specbound tune` fitted to a model's own replies, beside the settings
// that it found (runtime/tuned_settings.h). They are of texts and guesses, not of the machine:
// one file for each model. docs/architecture.md 9.
#pragma once

#include <optional>
#include <string>

#include "drafters/candidate_odds.h"
#include "runtime/tuned_settings.h"

namespace specbound {

struct TunedOdds {
  CandidateOdds::Weights weights;
  double shipped_loss = 0, held_out_loss = 0;  // log loss of what ships, and of such a fit
  std::string heads = {};  // fingerprint of those whose guesses were fitted; empty: none were
};

// nullopt when there are none for this model; a file that cannot be read or makes no sense is told
// and counts as none.
std::optional<TunedOdds> read_tuned_odds(const std::string& model_fingerprint,
                                         const TunedNote& note = nullptr);
// Throws Error(kFile). Returns where they went.
std::string write_tuned_odds(const std::string& model_fingerprint, const TunedOdds& odds);
// Those that ship are better. False: there were none.
bool remove_tuned_odds(const std::string& model_fingerprint);

}  // namespace specbound
