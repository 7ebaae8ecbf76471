#include "train/block_form.h"

#include "error.h"
#include "train/gemm.h"

namespace specbound {

BlockForm::BlockForm(HeadKind of_kind, const ModelConfig& config, const float* rope_factors,
                     int n_positions, int inner, std::span<const double> state_sizes)
    : kind(of_kind),
      dim(config.dim),
      n_heads(config.n_heads),
      n_kv_heads(config.n_kv_heads),
      head_dim(config.head_dim),
      n_inner(adapter() ? 0 : inner),
      norm_eps(config.norm_eps),
      score_scale(config.score_scale),
      norm(static_cast<size_t>(config.dim), 1.0f),
      kernels_(&kernels_for(best_isa())),
      style_(config.rope_style) {
  for (const double size : state_sizes) {
    state_factors.push_back(size > 0 ? static_cast<float>(1 / size) : 1.0f);
  }
  SB_CHECK(kind == HeadKind::kLayer || std::ssize(state_factors) == state_dim() / dim);
  // The norms are of what was divided, so their eps is too.
  norm_eps *= unit() * unit();
  HeadWeights block;
  block.block.w_gate.n_out = n_inner;
  if (eagle3() || adapter()) {
    // As the file says it, which has no rotation but the plain one.
    block.rope_theta = rope_theta = static_cast<float>(config.rope_theta);
    rope_factors = nullptr;
  }
  const ModelConfig own = draft_layer_config(config, block);
  rope_dim_ = own.rope_dim;
  Rope rope(own, rope_factors);
  rope.ensure(n_positions - 1);
  for (int pos = 0; pos < n_positions; ++pos) {
    const float* angles = rope.angles(pos, 0);
    cosine_.insert(cosine_.end(), angles, angles + rope_dim_);
    sine_.insert(sine_.end(), angles + rope_dim_, angles + 2 * rope_dim_);
  }
  for (const float sine : sine_) sine_back_.push_back(-sine);
}

void BlockForm::rotate(float* heads, int n, int pos, bool back) const {
  const size_t angles = cells(pos, rope_dim_);
  const float* sine = (back ? sine_back_ : sine_).data() + angles;
  for (int h = 0; h < n; ++h) {
    kernels_->rotate(heads + h * head_dim, cosine_.data() + angles, sine,
                     style_ == RopeStyle::kInterleaved, rope_dim_);
  }
}

}  // namespace specbound
