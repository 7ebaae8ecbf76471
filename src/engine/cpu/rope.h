// Rotary position embedding of the first rope_dim numbers of a head. Angles are computed once, in
// double, for each position reached and each of the model's rotations (ModelConfig::rotation_of).
// Su et al. 2021, "RoFormer"; frequency factors as in llama3 scaling and, with the factor of
// cosines and sines, LongRoPE (Ding et al. 2024).
#pragma once

#include <vector>

#include "engine/cpu/kernels.h"
#include "model/config.h"

namespace specbound {

class Rope {
 public:
  // `factors` (rope_dim/2) divide the frequencies of rotation 0; null for none.
  Rope(const ModelConfig& config, const float* factors);

  // Makes positions 0..pos available. Not to be called while others rotate.
  void ensure(int pos);
  // Of a position reached: cosine (rope_dim), then sine (rope_dim); a pair's angle at both of its
  // places, the sine negative at the first.
  const float* angles(int pos, int rotation) const {
    const size_t row = static_cast<size_t>(pos) * rotations_.size() + rotation;
    return table_.data() + row * 2 * rope_dim_;
  }
  // Rotates a head (head_dim) in place.
  void rotate(const Kernels& kernels, float* head, int pos, int rotation) const {
    const float* cosine = angles(pos, rotation);
    kernels.rotate(head, cosine, cosine + rope_dim_, style_ == RopeStyle::kInterleaved, rope_dim_);
  }

 private:
  struct Rotation {
    std::vector<double> frequency;  // [rope_dim/2], radians a position
    double attn_factor = 1;         // of cosines and sines
  };
  void add_angles(size_t pos, const Rotation& rotation, float* cosine) const;

  int rope_dim_;
  RopeStyle style_;
  std::vector<Rotation> rotations_;
  std::vector<float> table_;  // (positions, rotations, {cosine, sine}, rope_dim), for kernels
};

}  // namespace specbound
