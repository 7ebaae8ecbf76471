// How much of the model's distribution each drafter has, along texts that the model wrote: 1 - TV,
// what drafts can be accepted at best and rejection sampling accepts (decode/rejection.h). Held
// against what drafts drawn with the model's noise get right. docs/architecture.md 3.3, 5.
//
// Whatever guesses from logits is asked through the one interface that it drafts by: exit heads of
// all kinds by Backend::exit_check(), the others by Backend::logits(). Rounds are not decoded: from
// a place of the text on its own tokens stand for drafts, and step k is looked at where the drafts
// of all steps before would have been right, as it would be in a round.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "model/exit_heads.h"
#include "tune/tuning_trace.h"

namespace specbound {

// What one drafter says in one step of a round, on the replies of one temperature.
struct DrafterOverlap {
  std::string drafter;            // head_kind_name(), "lens", "draft-verify" or "draft"
  std::optional<int> layer = {};  // that its rows have come to; none: it runs beside the pass
  std::optional<int> step = {};   // 1 guesses behind the root; none: it says the same in every step
  float temperature = 0;
  int64_t tokens = 0;  // that were guessed
  double greedy = 0;   // share whose likeliest token is the model's likeliest
  double drawn = 0;    // share that a draft with the model's noise gets right
  double overlap = 0;  // mean 1 - TV of what the sampler draws by, filters and temperature included
  double unfiltered = 0;  // mean 1 - TV of the softmaxes at temperature 1
};

// Lookups name tokens without a distribution: how often they do, and how often the likeliest one is
// right.
struct LookupsRight {
  float temperature = 0;
  int64_t tokens = 0, found = 0, right = 0;
};

struct OverlapReport {
  std::vector<DrafterOverlap> drafters;  // by drafter, layer, step, temperature
  std::vector<LookupsRight> lookups;     // by temperature
  int replies = 0;
  int64_t places = 0;  // of these, that steps began at
  double seconds = 0;
  bool complete = true;  // false: stopped, and no report
};

struct OverlapOptions {
  const ExitHeads* heads = nullptr;  // the backend has them set, with
  int shortlist = 0;                 // this list; without heads the logit lens stands for them,
                                     // and the model itself without some layers
  Backend* draft_model = nullptr;    // of the same vocabulary, used by nobody else
  // About, shared out among replies by their tokens; their places are then evenly left out, but
  // each has one at least.
  double seconds = 30;
  // Replies done of all; false stops.
  std::function<bool(int done, int total)> progress;
};

// Layers of n_layers below the last at which a lens is looked through: about a dozen, even.
std::vector<int> lens_layers(int n_layers);

// Leaves the K/V empty.
OverlapReport measure_overlap(Backend& backend, std::span<const TuningText> texts,
                              const OverlapOptions& options);

}  // namespace specbound
