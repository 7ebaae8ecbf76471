// How a prompt comes into a backend: all its tokens but the last have K and V, the last one is the
// pending root of the next round. docs/architecture.md 3.2.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend.h"

namespace specbound {

// Throws Error(kLimit) for a prompt without a token or longer than the context, Error(kUsage) for a
// token that the model lacks.
void check_prompt(const Backend& backend, std::span<const int32_t> prompt);

// `text`, whose K and V the backend holds as far as it got, becomes `prompt`, a checked one; what
// both begin with stays. `go_on(done, total)` after each chunk may return false to stop early, and
// so does this then: kv_len tells how far it came. `prefilled`: the tokens that were run now.
bool read_prompt(Backend& backend, std::vector<int32_t>& text, std::span<const int32_t> prompt,
                 const std::function<bool(int done, int total)>& go_on, int& prefilled);

}  // namespace specbound
