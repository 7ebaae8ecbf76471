// A text as one vector: the mean over its tokens of the model's final states, normed as for its
// logits, scaled to length 1. What a model without a pooling head of its own can say of a text's
// place among others.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/generate.h"

namespace specbound {

// (dim), summed in double by ascending position. `output_norm` (dim): the model's. `text`: 1 to
// n_ctx tokens, each below vocab_size. What `session` has read before is read anew after it.
// Nothing where `abort` came between two passes. Throws Error(kFormat) where states are no numbers.
std::optional<std::vector<float>> text_embedding(Session& session,
                                                 std::span<const float> output_norm,
                                                 std::span<const int32_t> text,
                                                 const std::atomic<bool>& abort);

}  // namespace specbound
