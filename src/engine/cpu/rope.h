// Rotary position embedding. Angles are computed once, in double, for each position reached.
// Su et al. 2021, "RoFormer"; frequency factors as in llama3 scaling.
#pragma once

#include <vector>

#include "model/config.h"

namespace specbound {

class Rope {
 public:
  // `factors` (head_dim/2) divide the frequencies; null for none.
  Rope(const ModelConfig& config, const float* factors);

  // Makes positions 0..pos available. Not to be called while others rotate.
  void reach(int pos);
  // Rotates a head (head_dim) in place.
  void rotate(float* head, int pos) const;

 private:
  int half_;  // pairs
  RopeStyle style_;
  std::vector<double> frequency_;  // [half_], radians a position
  std::vector<float> table_;       // (positions, half_, {cos, sin})
};

}  // namespace specbound
