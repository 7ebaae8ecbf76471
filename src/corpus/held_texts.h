// Which texts of a training are learnt from and which, the last ones, are kept from that, to
// validate heads and to tune settings on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "corpus/features.h"

namespace specbound {

struct TextSplitOptions {
  size_t held = 0;     // those from here on answer prompts of their own; texts.size(): none do
  size_t first = 0;    // none before this one is kept
  int64_t wanted = 0;  // tokens to keep where none are such, in a twentieth of the texts or more
  int64_t most = std::numeric_limits<int64_t>::max();  // tokens of all that is learnt or kept
};

struct TextSplit {
  size_t learnt = 0;  // texts before this one are learnt from
  size_t held = 0;    // and those from here on kept, a fifth of all tokens at most
};
TextSplit split_texts(std::span<const TrainingText> texts, const TextSplitOptions& options);

// The first text from which on none was learnt where the last `validated` tokens of the first
// `n_texts` were not; of very little text the last one, whose end was not.
size_t first_unseen(std::span<const TrainingText> texts, size_t n_texts, int64_t validated);

}  // namespace specbound
