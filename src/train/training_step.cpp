#include "train/training_step.h"

#include <algorithm>

#include "error.h"
#include "train/gradients.h"
#include "train/place_heads.h"
#include "train/softmax_loss.h"

namespace specbound {

std::vector<Parameter*> LearningHead::parameters() {
  if (!places.empty()) {
    std::vector<Parameter*> all;
    for (LearningPlace& place : places) {
      all.insert(all.end(), {&place.map, &place.bias});
      if (kind == HeadKind::kHydra) {
        all.insert(all.end(), {&place.residual, &place.residual_bias});
      }
    }
    return all;
  }
  if (is_layer(kind)) {
    std::vector<Parameter*> all = {
        &map,           &block.q,        &block.k,         &block.v,
        &block.o,       &block.gate,     &block.up,        &block.down,
        &block.norm,    &block.ffn_norm, &block.attn_norm, &block.embedding_norm,
        &block.map_bias};
    std::erase_if(all, [](const Parameter* p) { return p->value.empty(); });
    return all;
  }
  if (n_inner == 0) return {&map};
  return {&map, &inner, &outer};
}

std::span<const int> steps_of(const LearningHead& head, std::span<const int> steps) {
  const size_t most = head.by_place() ? head.places.size() : static_cast<size_t>(head.most_steps);
  return steps.first(std::min(steps.size(), most));
}

void head_forward(const Gemm& gemm, const LearningHead& head, int n, const float* x, const float* s,
                  HeadStep& step) {
  const int dim = head.dim, n_in = head.n_in(), n_inner = head.n_inner;
  fit(step.y, cells(n, dim));
  const float* u = x;
  if (head.chained()) {
    fit(step.u, cells(n, n_in));
    for (int r = 0; r < n; ++r) {
      float* row = step.u.data() + cells(r, n_in);
      std::copy_n(x + cells(r, dim), dim, row);
      std::copy_n(s + cells(r, dim), dim, row + dim);
    }
    u = step.u.data();
  }
  gemm.multiply(Op::kPlain, Op::kTransposed, n, dim, n_in, 1.0f, u, n_in, head.map.value.data(),
                n_in, 0.0f, step.y.data(), dim);
  if (n_inner == 0) return;
  fit(step.hidden, cells(n, n_inner));
  fit(step.active, cells(n, n_inner));
  gemm.multiply(Op::kPlain, Op::kTransposed, n, n_inner, n_in, 1.0f, u, n_in,
                head.inner.value.data(), n_in, 0.0f, step.hidden.data(), n_inner);
  for_values(gemm, cells(n, n_inner),
             [&](size_t i) { step.active[i] = step.hidden[i] * sigmoid(step.hidden[i]); });
  gemm.multiply(Op::kPlain, Op::kTransposed, n, dim, n_inner, 1.0f, step.active.data(), n_inner,
                head.outer.value.data(), n_inner, 1.0f, step.y.data(), dim);
}

TrainingStep::TrainingStep(const Gemm& gemm, std::span<const float> lm_head, int dim,
                           std::span<const int32_t> shortlist, float sharpen, float softcap)
    : gemm_(gemm), lm_head_(lm_head), dim_(dim), sharpen_(sharpen), softcap_(softcap) {
  shortlist_rows_.resize(shortlist.size() * static_cast<size_t>(dim));
  for (size_t i = 0; i < shortlist.size(); ++i) {
    SB_CHECK(shortlist[i] >= 0 && shortlist[i] < vocab_size());
    std::copy_n(lm_head.data() + cells(shortlist[i], dim), dim,
                shortlist_rows_.data() + i * static_cast<size_t>(dim));
  }
}

void TrainingStep::set_targets(std::span<const float> rows, int n, const float* y,
                               Targets& targets) {
  const int width = width_of(rows, dim_);
  fit(targets.p, cells(n, width));
  fit(targets.entropy, static_cast<size_t>(n));
  gemm_.multiply(Op::kPlain, Op::kTransposed, n, width, dim_, 1.0f, y, dim_, rows.data(), dim_,
                 0.0f, targets.p.data(), width);
  cap_rows(gemm_.pool(), n, width, softcap_, sharpen_, targets.p.data());
  softmax_rows(gemm_.pool(), n, width, targets.p.data(), targets.entropy.data());
}

// dy (n, dim) becomes the gradient of weight * (sum of the rows' divergences); returns that sum.
double TrainingStep::loss_gradient(std::span<const float> rows, float softcap, int n,
                                   const float* y, const Targets& targets, float weight,
                                   float* dy) {
  const int width = width_of(rows, dim_);
  fit(z_, cells(n, width));
  fit(loss_, static_cast<size_t>(n));
  gemm_.multiply(Op::kPlain, Op::kTransposed, n, width, dim_, 1.0f, y, dim_, rows.data(), dim_,
                 0.0f, z_.data(), width);
  kl_rows(gemm_.pool(), n, width, softcap, z_.data(), targets.p.data(), targets.entropy.data(),
          weight, loss_.data());
  gemm_.multiply(Op::kPlain, Op::kPlain, n, dim_, width, 1.0f, z_.data(), width, rows.data(), dim_,
                 0.0f, dy, dim_);
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += loss_[r];
  return sum;
}

double TrainingStep::linear(LearningHead& head, const TrainingBatch& batch,
                            const std::vector<float>& x) {
  const bool whole = head.kind == HeadKind::kFull;
  const int n = batch.n;
  HeadStep& step = steps_[0];
  head_forward(gemm_, head, n, x.data(), nullptr, step);
  fit(dy_[0], cells(n, dim_));
  const double sum =
      loss_gradient(whole ? lm_head_ : shortlist_rows_, softcap_, n, step.y.data(),
                    whole ? whole_ : targets_[0], 1.0f / static_cast<float>(n), dy_[0].data());
  add_outer(gemm_, n, dim_, dim_, dy_[0].data(), x.data(), head.map.gradient);
  return sum / n;
}

// Gradients of the weights from dy (n, dim); where wanted, ds (n, dim) += the state's.
void TrainingStep::backward(LearningHead& head, const HeadStep& step, int n, const float* dy,
                            float* ds) {
  const int n_in = head.n_in(), n_inner = head.n_inner;
  add_outer(gemm_, n, dim_, n_in, dy, step.u.data(), head.map.gradient);
  if (ds) {
    gemm_.multiply(Op::kPlain, Op::kPlain, n, dim_, dim_, 1.0f, dy, dim_,
                   head.map.value.data() + dim_, n_in, 1.0f, ds, dim_);
  }
  if (n_inner == 0) return;
  add_outer(gemm_, n, dim_, n_inner, dy, step.active.data(), head.outer.gradient);
  fit(d_hidden_, cells(n, n_inner));
  gemm_.multiply(Op::kPlain, Op::kPlain, n, n_inner, dim_, 1.0f, dy, dim_, head.outer.value.data(),
                 n_inner, 0.0f, d_hidden_.data(), n_inner);
  for_values(gemm_, cells(n, n_inner),
             [&](size_t i) { d_hidden_[i] *= silu_slope(step.hidden[i]); });
  add_outer(gemm_, n, n_inner, n_in, d_hidden_.data(), step.u.data(), head.inner.gradient);
  if (ds) {
    gemm_.multiply(Op::kPlain, Op::kPlain, n, dim_, n_inner, 1.0f, d_hidden_.data(), n_inner,
                   head.inner.value.data() + dim_, n_in, 1.0f, ds, dim_);
  }
}

double TrainingStep::chained(LearningHead& head, const TrainingBatch& batch,
                             const std::vector<std::vector<float>>& x) {
  const std::span<const int> steps = steps_of(head, batch.chained);
  const int n_steps = static_cast<int>(steps.size());
  int64_t rows = 0;
  for (const int n : steps) rows += n;
  if (rows == 0) return 0;
  const float weight = 1.0f / static_cast<float>(rows);
  double sum = 0;
  for (int k = 0; k < n_steps; ++k) {
    const int n = steps[k];
    const float* state = k == 0 ? batch.state.data() : steps_[k - 1].y.data();
    head_forward(gemm_, head, n, x[k].data(), state, steps_[k]);
    fit(dy_[k], cells(n, dim_));
    sum += loss_gradient(shortlist_rows_, softcap_, n, steps_[k].y.data(), targets_[k], weight,
                         dy_[k].data());
  }
  for (int k = n_steps - 1; k >= 0; --k) {
    backward(head, steps_[k], steps[k], dy_[k].data(), k > 0 ? dy_[k - 1].data() : nullptr);
  }
  return sum / static_cast<double>(rows);
}

void TrainingStep::run(std::span<LearningHead> heads, std::span<const int> x_index,
                       const TrainingBatch& batch, std::span<double> losses) {
  const size_t n_steps = std::max<size_t>(1, batch.chained.size());
  if (targets_.size() < n_steps) {
    targets_.resize(n_steps);
    steps_.resize(n_steps);
    dy_.resize(n_steps);
  }
  bool whole = false, some = false;
  size_t chains = 0;
  for (const LearningHead& head : heads) {
    whole |= head.kind == HeadKind::kFull;
    some |= head.kind == HeadKind::kFolded;
    if (head.chained()) chains = std::max(chains, steps_of(head, batch.chained).size());
  }
  if (whole) set_targets(lm_head_, batch.n, batch.y[0].data(), whole_);
  for (size_t k = 0; k < n_steps; ++k) {
    const int n = k == 0 && some ? batch.n : k < chains ? batch.chained[k] : 0;
    if (n > 0) set_targets(shortlist_rows_, n, batch.y[k].data(), targets_[k]);
  }
  for (size_t h = 0; h < heads.size(); ++h) {
    if (heads[h].by_place()) continue;
    const std::vector<std::vector<float>>& x = batch.x[x_index[h]];
    losses[h] = heads[h].chained() ? chained(heads[h], batch, x) : linear(heads[h], batch, x[0]);
  }
  by_place(heads, batch, losses);
}

}  // namespace specbound
