#include "decode/exit_head.h"

namespace specbound {

float LensHead::confidence(Round& round, int, float temperature) {
  z_.resize(round.backend().config().vocab_size);
  round.backend().logits(round.newest(), 1, z_.data());
  return round.backend().confidence(z_, temperature);
}

// With the noise that the target will be drawn with: draft and target agree far more often than
// independent draws would.
int32_t LensHead::token(Round& round) {
  const int slot = round.newest();
  return round.sampler().sample(z_, round.history(slot), round.place(slot));
}

}  // namespace specbound
