// Angle tables and the two pairings.
#include "engine/cpu/rope.h"

#include "engine/exact_math.h"

namespace specbound {

Rope::Rope(const ModelConfig& config, const float* factors)
    : half_(config.head_dim / 2), style_(config.rope_style) {
  for (int i = 0; i < half_; ++i) {
    const double frequency = exact_exp(-2.0 * i / config.head_dim * exact_log(config.rope_theta));
    frequency_.push_back(frequency / config.rope_scale / (factors ? factors[i] : 1.0));
  }
}

void Rope::reach(int pos) {
  const size_t row = 2 * static_cast<size_t>(half_);
  if (table_.size() > pos * row) return;
  const size_t done = table_.size() / row, target = static_cast<size_t>(pos) + 1;
  table_.resize(target * row);
  for (size_t p = done; p < target; ++p) {
    for (int i = 0; i < half_; ++i) {
      const SinCos angle = exact_sin_cos(static_cast<double>(p) * frequency_[i]);
      table_[p * row + 2 * i] = static_cast<float>(angle.cos);
      table_[p * row + 2 * i + 1] = static_cast<float>(angle.sin);
    }
  }
}

void Rope::rotate(float* head, int pos) const {
  const float* angle = table_.data() + static_cast<size_t>(pos) * 2 * half_;
  const int step = style_ == RopeStyle::kInterleaved ? 2 : 1;
  const int apart = style_ == RopeStyle::kInterleaved ? 1 : half_;
  for (int i = 0; i < half_; ++i) {
    float& a = head[i * step];
    float& b = head[i * step + apart];
    const float cosine = angle[2 * i], sine = angle[2 * i + 1];
    const float rotated = a * cosine - b * sine;
    b = a * sine + b * cosine;
    a = rotated;
  }
}

}  // namespace specbound
