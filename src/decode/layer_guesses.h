// What each layer had in mind for the tokens of a reply, looked up after it: the logit lens at
// every layer, the paper's Figure 1. Nothing of it is computed while the reply is decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "decode/generate.h"

namespace specbound {

// The most likely token by a layer's hidden row, and its probability.
struct LayerTop {
  int32_t token = 0;
  float probability = 0;
};

// For the rows of positions [from, to), as Session::revisit() takes them: `take` gets the guesses
// of the row at `row`, which are for the token behind it, at row + 1; layers[l - 1] is layer l's,
// the last one the model's own. In groups of up to kMaxRows rows; between their layers `goes_on` is
// asked. False if it said no: no row of its group was taken. `temperature`, of a layer, divides its
// logits; empty: 1.
bool guess_layers(Session& session, int from, int to,
                  const std::function<void(int row, std::span<const LayerTop> layers)>& take,
                  const std::function<bool()>& goes_on,
                  const std::function<float(int layer)>& temperature = nullptr);

}  // namespace specbound
