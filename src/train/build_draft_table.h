// A draft table from texts that the model wrote: which token followed which, counted for contexts
// of every length and smoothed, so that its chances hold on text it has not seen.
#pragma once

#include <cstddef>
#include <span>

#include "model/draft_table.h"
#include "train/features.h"

namespace specbound {

struct DraftTableOptions {
  int max_context = 6;
  size_t max_bytes = 0;  // of the table
  int vocab_size = 0;
};

// Counted are the tokens that are learnt; what is before them, a prompt too, is their context. Kept
// are the contexts that say most beyond what shorter ones say, as many as max_bytes hold. The same
// texts give the same table. Empty when nothing is learnt or nothing fits.
NewDraftTable build_draft_table(std::span<const TrainingText> texts,
                                const DraftTableOptions& options);

// How a table does on texts that it was not built from.
struct DraftTableReport {
  int64_t tokens = 0;
  double known = 0;       // part of the tokens with a guess
  double right = 0;       // part of the tokens whose likeliest guess they are
  double confidence = 0;  // mean at T = 1; of a calibrated table, equal to `right`
  double ece = 0;         // expected calibration error, 20 bins
};
DraftTableReport judge_draft_table(const DraftTable& table, std::span<const TrainingText> texts);

}  // namespace specbound
