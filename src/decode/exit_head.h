// What looks at the newest row of a round after some layer and guesses the token that follows it.
// A guess never changes a byte of the text, so heads may be as approximate as pays. DESIGN 6.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/round.h"

namespace specbound {

class ExitHead {
 public:
  virtual ~ExitHead() = default;
  virtual const char* name() const = 0;
  // max softmax(z / temperature) of the head's logits z for the newest row, now after `layer`
  // (paper Eq. 2); NaN never passes a threshold.
  virtual float confidence(Round& round, int layer, float temperature) = 0;
  // What the sampler's rule picks from the z that was read last.
  virtual int32_t token(Round& round) = 0;
};

// The logit lens: the model's own lm_head(norm(h)) at any layer. Untrained, needs no file.
class LensHead final : public ExitHead {
 public:
  const char* name() const override { return "lens"; }
  float confidence(Round& round, int layer, float temperature) override;
  int32_t token(Round& round) override;

 private:
  std::vector<float> z_;  // (vocab_size)
};

}  // namespace specbound
