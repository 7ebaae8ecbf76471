// The odds of candidates (drafters/candidate_odds.h) fitted to texts that models wrote: logistic
// regression over what lookups would have found at every place, pulled towards the odds it begins
// with, so that few texts move them little. docs/architecture.md 9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "drafters/candidate_odds.h"
#include "model/datastore.h"
#include "tune/tuning_trace.h"

namespace specbound {

// A candidate, and what it turned out to be.
struct OddsCase {
  CandidateOdds::Features features;
  bool right = false;
  int dialogue = 0;  // that it is from
};

// What lookups would have found in the replies. Beside the text itself they look into `given`, text
// of the heads file, and replies of the dialogues before; without any given every second dialogue
// is looked up without a memory, as a first conversation is. `store`: a datastore too.
std::vector<OddsCase> look_up(std::span<const TuningText> texts, std::span<const int32_t> given,
                              const Datastore* store = nullptr);

// Mean over the cases, which must not be empty.
double log_loss(std::span<const OddsCase> cases, const CandidateOdds::Weights& weights);

// What it takes to move a figure. Candidates of one text are right or wrong together, so that they
// count for less than as many cases; on SmolLM2's replies to Spec-Bench 16 is best where a few
// replies are seen, and as good as any where many are.
inline constexpr double kOddsPull = 16;

// Pull 0: the cases alone decide.
CandidateOdds::Weights fit_odds(std::span<const OddsCase> cases,
                                const CandidateOdds::Weights& begin, double pull);

struct FittedOdds {
  CandidateOdds::Weights weights;  // fitted to all cases
  size_t cases = 0;
  // Log loss of what ships, and of fits that have not seen the dialogue of the case. Equal where
  // there are too few dialogues to hold any out.
  double shipped_loss = 0, held_out_loss = 0;

  // By a hair is as good.
  bool better() const { return held_out_loss < 0.995 * shipped_loss; }
  bool worse() const { return held_out_loss > shipped_loss; }
};
// `progress` is told how many fits are done; false stops, and what is returned then is of no use.
FittedOdds fit_shipped_odds(std::span<const OddsCase> cases,
                            const std::function<bool(int done, int total)>& progress = nullptr);

}  // namespace specbound
