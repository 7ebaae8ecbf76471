// Rotary position embedding. Angles are computed once, in double, for each position reached.
// Su et al. 2021, "RoFormer"; frequency factors as in llama3 scaling.
#pragma once

#include <vector>

#include "engine/cpu/kernels.h"
#include "model/config.h"

namespace specbound {

class Rope {
 public:
  // `factors` (head_dim/2) divide the frequencies; null for none.
  Rope(const ModelConfig& config, const float* factors);

  // Makes positions 0..pos available. Not to be called while others rotate.
  void reach(int pos);
  // Of a position reached: cosine (head_dim), then sine (head_dim); a pair's angle at both of its
  // places, the sine negative at the first.
  const float* angles(int pos) const {
    return table_.data() + static_cast<size_t>(pos) * 2 * head_dim_;
  }
  // Rotates a head (head_dim) in place.
  void rotate(const Kernels& kernels, float* head, int pos) const {
    const float* cosine = angles(pos);
    kernels.rotate(head, cosine, cosine + head_dim_, style_ == RopeStyle::kInterleaved, head_dim_);
  }

 private:
  int head_dim_;
  RopeStyle style_;
  std::vector<double> frequency_;  // [head_dim/2], radians a position
  std::vector<float> table_;       // (positions, {cosine, sine}, head_dim), as kernels want it
};

}  // namespace specbound
