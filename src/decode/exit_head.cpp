#include "decode/exit_head.h"

namespace specbound {

float LensHead::confidence(Round& round, int, float temperature) {
  z_.resize(round.backend().config().vocab_size);
  round.backend().logits(round.newest(), 1, z_.data());
  return round.backend().confidence(z_, temperature);
}

int32_t LensHead::token(Round& round) {
  return round.draw(z_);
}

}  // namespace specbound
