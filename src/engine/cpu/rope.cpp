// Angle tables for the two pairings.
#include "engine/cpu/rope.h"

#include <algorithm>

#include "numerics/exact_math.h"

namespace specbound {

namespace {

// How much of rope_scale slows pair i: 0 to 1.
double scaled_part(const ModelConfig& config, int i) {
  if (!config.yarn) return 1;
  const auto [first, last] = *config.yarn;
  return std::clamp((i - first) / std::max(last - first, 1e-3), 0.0, 1.0);
}

}  // namespace

Rope::Rope(const ModelConfig& config, const float* factors)
    : rope_dim_(config.rope_dim), style_(config.rope_style), rotations_(config.n_rotations()) {
  const auto plain = [&](double theta, int i) {
    return exact_exp(-2.0 * i / rope_dim_ * exact_log(theta));
  };
  rotations_[0].attn_factor = config.rope_attn_factor;
  for (int i = 0; i < rope_dim_ / 2; ++i) {
    const double part = scaled_part(config, i), frequency = plain(config.rope_theta, i);
    const double scaled = part == 1 ? frequency / config.rope_scale
                                    : frequency * (part / config.rope_scale + (1 - part));
    rotations_[0].frequency.push_back(scaled / (factors ? factors[i] : 1.0));
    if (rotations_.size() == 1) continue;
    rotations_[1].frequency.push_back(plain(config.windowed_rope_theta, i));
  }
}

void Rope::ensure(int pos) {
  const size_t angles = 2 * static_cast<size_t>(rope_dim_), row = rotations_.size() * angles;
  if (table_.size() > pos * row) return;
  const size_t done = table_.size() / row, target = static_cast<size_t>(pos) + 1;
  table_.resize(target * row);
  for (size_t p = done; p < target; ++p) {
    float* to = table_.data() + p * row;
    for (const Rotation& rotation : rotations_) {
      add_angles(p, rotation, to);
      to += angles;
    }
  }
}

void Rope::add_angles(size_t pos, const Rotation& rotation, float* cosine) const {
  const bool interleaved = style_ == RopeStyle::kInterleaved;
  const int half = rope_dim_ / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
  float* sine = cosine + rope_dim_;
  for (int i = 0; i < half; ++i) {
    const SinCos angle = exact_sin_cos(static_cast<double>(pos) * rotation.frequency[i]);
    cosine[i * step] = cosine[i * step + apart] =
        static_cast<float>(rotation.attn_factor * angle.cos);
    sine[i * step + apart] = static_cast<float>(rotation.attn_factor * angle.sin);
    sine[i * step] = -sine[i * step + apart];
  }
}

}  // namespace specbound
