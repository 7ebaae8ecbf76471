// Angle tables for the two pairings.
#include "engine/cpu/rope.h"

#include "numerics/exact_math.h"

namespace specbound {

Rope::Rope(const ModelConfig& config, const float* factors)
    : rope_dim_(config.rope_dim), style_(config.rope_style), attn_factor_(config.rope_attn_factor) {
  for (int i = 0; i < rope_dim_ / 2; ++i) {
    const double frequency = exact_exp(-2.0 * i / rope_dim_ * exact_log(config.rope_theta));
    frequency_.push_back(frequency / config.rope_scale / (factors ? factors[i] : 1.0));
  }
}

void Rope::ensure(int pos) {
  const size_t row = 2 * static_cast<size_t>(rope_dim_);
  if (table_.size() > pos * row) return;
  const size_t done = table_.size() / row, target = static_cast<size_t>(pos) + 1;
  const bool interleaved = style_ == RopeStyle::kInterleaved;
  const int half = rope_dim_ / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
  table_.resize(target * row);
  for (size_t p = done; p < target; ++p) {
    float *cosine = table_.data() + p * row, *sine = cosine + rope_dim_;
    for (int i = 0; i < half; ++i) {
      const SinCos angle = exact_sin_cos(static_cast<double>(p) * frequency_[i]);
      cosine[i * step] = cosine[i * step + apart] = static_cast<float>(attn_factor_ * angle.cos);
      sine[i * step + apart] = static_cast<float>(attn_factor_ * angle.sin);
      sine[i * step] = -sine[i * step + apart];
    }
  }
}

}  // namespace specbound
