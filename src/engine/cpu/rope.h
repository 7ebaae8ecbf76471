// Rotary position embedding of the first rope_dim numbers of a head. Angles are computed once, in
// double, for each position reached. Su et al. 2021, "RoFormer"; frequency factors as in llama3
// scaling and, with the factor of cosines and sines, LongRoPE (Ding et al. 2024).
#pragma once

#include <vector>

#include "engine/cpu/kernels.h"
#include "model/config.h"

namespace specbound {

class Rope {
 public:
  // `factors` (rope_dim/2) divide the frequencies; null for none.
  Rope(const ModelConfig& config, const float* factors);

  // Makes positions 0..pos available. Not to be called while others rotate.
  void ensure(int pos);
  // Of a position reached: cosine (rope_dim), then sine (rope_dim); a pair's angle at both of its
  // places, the sine negative at the first.
  const float* angles(int pos) const {
    return table_.data() + static_cast<size_t>(pos) * 2 * rope_dim_;
  }
  // Rotates a head (head_dim) in place.
  void rotate(const Kernels& kernels, float* head, int pos) const {
    const float* cosine = angles(pos);
    kernels.rotate(head, cosine, cosine + rope_dim_, style_ == RopeStyle::kInterleaved, rope_dim_);
  }

 private:
  int rope_dim_;
  RopeStyle style_;
  double attn_factor_;
  std::vector<double> frequency_;  // [rope_dim/2], radians a position
  std::vector<float> table_;       // (positions, {cosine, sine}, rope_dim), as kernels want it
};

}  // namespace specbound
