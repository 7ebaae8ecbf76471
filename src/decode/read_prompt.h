// How a prompt comes into a backend: all its tokens but the last have K and V, the last one is the
// pending root of the next round. docs/architecture.md 3.2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend.h"

namespace specbound {

// Throws Error(kLimit) for a prompt without a token or longer than the context, Error(kUsage) for a
// token that the model lacks.
void check_prompt(const Backend& backend, std::span<const int32_t> prompt);

// `text`, whose K and V the backend holds as far as it got, becomes `prompt`, a checked one; what
// both begin with stays. The tokens that are still to be read.
int begin_prompt(Backend& backend, std::vector<int32_t>& text, std::span<const int32_t> prompt);

// The next of these, of which there are some, up to kPrefillChunk. How many they were.
int read_chunk(Backend& backend, std::span<const int32_t> text);

}  // namespace specbound
