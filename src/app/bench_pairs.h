// Two ways of answering the same prompts, timed in turn in one process: what `bench --compare` is
// made of.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "app/timed_reply.h"

namespace specbound {

struct PairedSides {
  // The reply to prompts[i], plain and as it is to be compared. May throw, which ends everything.
  std::function<TimedReply(size_t prompt)> base, other;
};

struct PairedPrompt {
  std::vector<TimedReply> base, other;  // [repetition]; a pair ran one right after the other

  // Every reply of both sides is the first one of `base`, token for token.
  bool identical() const;
  // Of each pair: base over other of what `seconds` takes from a reply; above 1 is a gain. 0 where
  // the other took no time.
  std::vector<double> ratios(double (*seconds)(const TimedReply&)) const;
};

// Who goes first: of each prompt's repetitions every second one, of each repetition's prompts every
// second one (AB, BA, ...), so that no side has the warmer machine.
bool base_first(size_t prompt, int repetition);

// All prompts, then all again: a drift of the machine meets all of them alike, and what adapts to
// the texts meets varied ones. One pair of the first prompt runs before that and does not count.
std::vector<PairedPrompt> time_pairs(size_t n_prompts, int repetitions, const PairedSides& sides);

}  // namespace specbound
