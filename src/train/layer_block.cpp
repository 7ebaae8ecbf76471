#include "train/layer_block.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "train/gradients.h"
#include "train/layer_attention.h"

namespace specbound {

namespace {

// y (n, n_out) = u (n, n_in) w^T
void times(const Gemm& gemm, int n, const std::vector<float>& u, int n_in, const Parameter& w,
           int n_out, std::vector<float>& y, float beta = 0) {
  fit(y, cells(n, n_out));
  gemm.multiply(Op::kPlain, Op::kTransposed, n, n_out, n_in, 1.0f, u.data(), n_in, w.value.data(),
                n_in, beta, y.data(), n_out);
}

// The gradients of that: w's += dy^T u, and du (n, n_in) = beta du + dy w.
void times_back(const Gemm& gemm, int n, const std::vector<float>& u, int n_in, Parameter& w,
                int n_out, const std::vector<float>& dy, std::vector<float>& du, float beta = 0) {
  add_outer(gemm, n, n_out, n_in, dy.data(), u.data(), w.gradient);
  fit(du, cells(n, n_in));
  gemm.multiply(Op::kPlain, Op::kPlain, n, n_in, n_out, 1.0f, dy.data(), n_out, w.value.data(),
                n_in, beta, du.data(), n_in);
}

// Of rows (n, width): normed = x / rms(x), scale (n) = 1 / rms(x).
void norm_row(int width, float eps, const float* x, float* normed, float& scale) {
  float sum = 0;
  for (int i = 0; i < width; ++i) sum += x[i] * x[i];
  scale = 1 / std::sqrt(sum / static_cast<float>(width) + eps);
  for (int i = 0; i < width; ++i) normed[i] = scale * x[i];
}

void norm_rows(const Gemm& gemm, int n, int dim, float eps, const std::vector<float>& x,
               std::vector<float>& normed, std::vector<float>& scale) {
  fit(normed, cells(n, dim));
  fit(scale, static_cast<size_t>(n));
  for_rows(gemm, n, [&](int r) {
    norm_row(dim, eps, &x[cells(r, dim)], &normed[cells(r, dim)], scale[static_cast<size_t>(r)]);
  });
}

// dx += the gradient of x / rms(x) from d, `scale` times what is at right angles to it.
void norm_row_back(int width, const float* normed, float scale, const float* d, float* dx) {
  const float along = dot(width, d, normed) / static_cast<float>(width);
  for (int i = 0; i < width; ++i) dx[i] += scale * (d[i] - along * normed[i]);
}

void norm_rows_back(const Gemm& gemm, int n, int dim, const std::vector<float>& normed,
                    const std::vector<float>& scale, const std::vector<float>& d,
                    std::vector<float>& dx) {
  for_rows(gemm, n, [&](int r) {
    norm_row_back(dim, &normed[cells(r, dim)], scale[static_cast<size_t>(r)], &d[cells(r, dim)],
                  &dx[cells(r, dim)]);
  });
}

// out (n, dim) = w normed with w = form.norm times what is learnt, and its gradients: that of the
// latter, and d (n, dim) becomes that of `normed`.
void weigh(const Gemm& gemm, int n, const BlockForm& form, const Parameter& learnt,
           const std::vector<float>& normed, std::vector<float>& out) {
  fit(out, cells(n, form.dim));
  for_values(gemm, cells(n, form.dim), [&](size_t i) {
    const size_t d = i % static_cast<size_t>(form.dim);
    out[i] = form.norm[d] * learnt.value[d] * normed[i];
  });
}

void weigh_back(const Gemm& gemm, int n, const BlockForm& form, Parameter& learnt,
                const std::vector<float>& normed, std::vector<float>& d) {
  for (int r = 0; r < n; ++r) {
    const size_t row = cells(r, form.dim);
    for (size_t i = 0; i < static_cast<size_t>(form.dim); ++i) {
      learnt.gradient[i] += form.norm[i] * d[row + i] * normed[row + i];
    }
  }
  for_values(gemm, cells(n, form.dim), [&](size_t i) {
    const size_t column = i % static_cast<size_t>(form.dim);
    d[i] *= form.norm[column] * learnt.value[column];
  });
}

// From d (n, 2 dim), the gradient of `in`: what is added to the states said in the step before.
void block_inputs_back(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                       std::span<BlockStep> steps, const std::vector<float>& d) {
  const BlockStep& step = steps[static_cast<size_t>(k)];
  BlockStep& from = steps[static_cast<size_t>(k) - 1];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const std::vector<int>& slot = batch.steps[static_cast<size_t>(k) - 1].slot;
  const int dim = form.dim;
  for_rows(gemm, static_cast<int>(rows.size()), [&](int r) {
    const int before = slot[static_cast<size_t>(rows[static_cast<size_t>(r)]) - 1];
    float* dy = &from.dy[cells(before, dim)];
    const size_t half = cells(r, 2 * dim) + static_cast<size_t>(dim);
    if (form.eagle()) {
      add_scaled(dim, form.state_factor, &d[half], dy);
    } else {
      norm_row_back(dim, &step.in[half], step.in_scale[static_cast<size_t>(r)], &d[half], dy);
    }
  });
}

}  // namespace

BlockForm::BlockForm(HeadKind of_kind, const ModelConfig& config, const float* rope_factors,
                     int n_positions, int inner, double state_size)
    : kind(of_kind),
      dim(config.dim),
      n_heads(config.n_heads),
      n_kv_heads(config.n_kv_heads),
      head_dim(config.head_dim),
      n_inner(inner),
      norm_eps(config.norm_eps),
      score_scale(config.score_scale),
      norm(static_cast<size_t>(config.dim), 1.0f),
      kernels_(&kernels_for(best_isa())),
      style_(config.rope_style),
      rope_dim_(config.rope_dim) {
  if (eagle() && state_size > 0) {
    // The norm is of what was divided, so its eps is too.
    state_factor = static_cast<float>(1 / state_size);
    norm_eps *= state_factor * state_factor;
  }
  HeadWeights block;
  block.block.w_gate.n_out = inner;
  Rope rope(draft_layer_config(config, block), rope_factors);
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

void set_steps(std::span<const uint8_t> learn, int n_steps, PassageBatch& batch) {
  batch.learnt.clear();
  batch.steps.clear();
  const int n_passages = static_cast<int>(batch.first.size()) - 1;
  for (int k = 0; k < n_steps; ++k) {
    PassageBatch::Step step;
    step.slot.assign(static_cast<size_t>(batch.n), -1);
    step.begin.push_back(0);
    for (int p = 0; p < n_passages; ++p) {
      const int first = batch.first[static_cast<size_t>(p)];
      for (int row = first; row < batch.first[static_cast<size_t>(p) + 1]; ++row) {
        const size_t i = static_cast<size_t>(row);
        if (k == 0 && learn[i]) batch.learnt.push_back(row);
        const bool goes_on = k == 0 || (row > first && learn[i] && learn[i - 1] &&
                                        batch.steps.back().slot[i - 1] >= 0);
        if (!goes_on) continue;
        step.slot[i] = static_cast<int>(step.rows.size());
        step.rows.push_back(row);
      }
      step.begin.push_back(static_cast<int>(step.rows.size()));
    }
    if (step.rows.empty()) break;
    batch.steps.push_back(std::move(step));
  }
}

void block_inputs(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                  std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const PassageBatch::Step& of = batch.steps[static_cast<size_t>(k)];
  const int n = static_cast<int>(of.rows.size()), dim = form.dim;
  fit(step.in, cells(n, 2 * dim));
  fit(step.in_scale, static_cast<size_t>(n));
  for_rows(gemm, n, [&](int r) {
    const int row = of.rows[static_cast<size_t>(r)];
    const float* state = &batch.state[cells(row, dim)];
    if (k > 0) {
      const int before = batch.steps[static_cast<size_t>(k) - 1].slot[static_cast<size_t>(row) - 1];
      state = &steps[static_cast<size_t>(k) - 1].y[cells(before, dim)];
    }
    float* in = &step.in[cells(r, 2 * dim)];
    std::copy_n(&batch.x[cells(row, dim)], dim, in);
    if (form.eagle()) {
      for (int i = 0; i < dim; ++i) in[dim + i] = form.state_factor * state[i];
    } else {
      norm_row(dim, form.norm_eps, state, in + dim, step.in_scale[static_cast<size_t>(r)]);
    }
  });
}

void block_forward(const Gemm& gemm, const LearningHead& head, const BlockForm& form,
                   const PassageBatch& batch, int k, std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  const LearningBlock& block = head.block;
  const std::vector<int>& first = batch.first;

  block_inputs(gemm, form, batch, k, steps);
  times(gemm, n, step.in, 2 * dim, head.map, dim, step.u);
  if (form.eagle()) {
    for_values(gemm, cells(n, dim),
               [&](size_t i) { step.u[i] += block.map_bias.value[i % static_cast<size_t>(dim)]; });
  } else {
    norm_rows(gemm, n, dim, form.norm_eps, step.u, step.u_normed, step.u_scale);
  }

  const std::vector<float>& a = form.eagle() ? step.u : step.u_normed;
  times(gemm, n, a, dim, block.q, form.q_dim(), step.q);
  times(gemm, n, a, dim, block.k, form.kv_dim(), step.k);
  times(gemm, n, a, dim, block.v, form.kv_dim(), step.v);
  for_rows(gemm, n, [&](int r) {
    const int row = rows[static_cast<size_t>(r)];
    const int pos = row - *std::prev(std::upper_bound(first.begin(), first.end(), row));
    form.rotate(&step.q[cells(r, form.q_dim())], form.n_heads, pos);
    form.rotate(&step.k[cells(r, form.kv_dim())], form.n_kv_heads, pos);
  });
  attend(gemm, form, batch, k, steps);
  fit(step.h, cells(n, dim));
  std::copy_n(step.u.begin(), cells(n, dim), step.h.begin());
  times(gemm, n, step.attended, form.q_dim(), block.o, dim, step.h, 1);

  norm_rows(gemm, n, dim, form.norm_eps, step.h, step.h_normed, step.h_scale);
  if (form.eagle()) weigh(gemm, n, form, block.norm, step.h_normed, step.f);
  const std::vector<float>& f = form.eagle() ? step.f : step.h_normed;
  times(gemm, n, f, dim, block.gate, form.n_inner, step.gate);
  times(gemm, n, f, dim, block.up, form.n_inner, step.up);
  fit(step.active, cells(n, form.n_inner));
  for_values(gemm, cells(n, form.n_inner),
             [&](size_t i) { step.active[i] = step.gate[i] * sigmoid(step.gate[i]) * step.up[i]; });
  fit(step.out, cells(n, dim));
  std::copy_n(step.h.begin(), cells(n, dim), step.out.begin());
  times(gemm, n, step.active, form.n_inner, block.down, dim, step.out, 1);

  if (form.eagle()) {
    fit(step.y, cells(n, dim));
    for_values(gemm, cells(n, dim), [&](size_t i) { step.y[i] = step.out[i] / form.state_factor; });
  } else {
    norm_rows(gemm, n, dim, form.norm_eps, step.out, step.out_normed, step.out_scale);
    weigh(gemm, n, form, block.norm, step.out_normed, step.y);
  }
}

void block_backward(const Gemm& gemm, LearningHead& head, const BlockForm& form,
                    const PassageBatch& batch, int k, std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  LearningBlock& block = head.block;

  std::vector<float> du(cells(n, dim));  // of the residual stream, from its end to its beginning
  if (form.eagle()) {
    for_values(gemm, cells(n, dim), [&](size_t i) { du[i] = step.dy[i] / form.state_factor; });
  } else {
    weigh_back(gemm, n, form, block.norm, step.out_normed, step.dy);
    norm_rows_back(gemm, n, dim, step.out_normed, step.out_scale, step.dy, du);
  }

  std::vector<float> d_gate, d_up(cells(n, form.n_inner)), df;
  times_back(gemm, n, step.active, form.n_inner, block.down, dim, du, d_gate);
  for_values(gemm, cells(n, form.n_inner), [&](size_t i) {
    const float gate = step.gate[i], d = d_gate[i];
    d_up[i] = d * gate * sigmoid(gate);
    d_gate[i] = d * step.up[i] * silu_slope(gate);
  });
  const std::vector<float>& f = form.eagle() ? step.f : step.h_normed;
  times_back(gemm, n, f, dim, block.gate, form.n_inner, d_gate, df);
  times_back(gemm, n, f, dim, block.up, form.n_inner, d_up, df, 1);
  if (form.eagle()) weigh_back(gemm, n, form, block.norm, step.h_normed, df);
  norm_rows_back(gemm, n, dim, step.h_normed, step.h_scale, df, du);

  std::vector<float> d_attended, dq, da;
  times_back(gemm, n, step.attended, form.q_dim(), block.o, dim, du, d_attended);
  attend_back(gemm, form, batch, k, steps, d_attended, dq);
  const std::vector<int>& first = batch.first;
  for_rows(gemm, n, [&](int r) {
    const int row = rows[static_cast<size_t>(r)];
    const int pos = row - *std::prev(std::upper_bound(first.begin(), first.end(), row));
    form.rotate_back(&dq[cells(r, form.q_dim())], form.n_heads, pos);
    form.rotate_back(&step.dk[cells(r, form.kv_dim())], form.n_kv_heads, pos);
  });
  const std::vector<float>& a = form.eagle() ? step.u : step.u_normed;
  times_back(gemm, n, a, dim, block.q, form.q_dim(), dq, da);
  times_back(gemm, n, a, dim, block.k, form.kv_dim(), step.dk, da, 1);
  times_back(gemm, n, a, dim, block.v, form.kv_dim(), step.dv, da, 1);
  if (form.eagle()) {
    for_values(gemm, cells(n, dim), [&](size_t i) { du[i] += da[i]; });
    for (int r = 0; r < n; ++r) {
      add_scaled(dim, 1, &du[cells(r, dim)], block.map_bias.gradient.data());
    }
  } else {
    norm_rows_back(gemm, n, dim, step.u_normed, step.u_scale, da, du);
  }

  std::vector<float> d_in;
  times_back(gemm, n, step.in, 2 * dim, head.map, dim, du, d_in);
  if (k > 0) block_inputs_back(gemm, form, batch, k, steps, d_in);
}

}  // namespace specbound
