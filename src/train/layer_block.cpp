#include "train/layer_block.h"

#include <algorithm>
#include <cmath>

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

// Of a row of the batch.
int place_in_passage(const PassageBatch& batch, int row) {
  return row - *std::prev(std::upper_bound(batch.first.begin(), batch.first.end(), row));
}

// out (n, dim) = w normed with w what is learnt, times `base` (dim) where there is one, and its
// gradients: that of the former, and d (n, dim) becomes that of `normed`.
void weigh(const Gemm& gemm, int n, int dim, const float* base, const Parameter& learnt,
           const std::vector<float>& normed, std::vector<float>& out) {
  fit(out, cells(n, dim));
  for_values(gemm, cells(n, dim), [&](size_t i) {
    const size_t d = i % static_cast<size_t>(dim);
    out[i] = (base ? base[d] : 1) * learnt.value[d] * normed[i];
  });
}

void weigh_back(const Gemm& gemm, int n, int dim, const float* base, Parameter& learnt,
                const std::vector<float>& normed, std::vector<float>& d) {
  for (int r = 0; r < n; ++r) {
    const size_t row = cells(r, dim);
    for (size_t i = 0; i < static_cast<size_t>(dim); ++i) {
      learnt.gradient[i] += (base ? base[i] : 1) * d[row + i] * normed[row + i];
    }
  }
  for_values(gemm, cells(n, dim), [&](size_t i) {
    const size_t column = i % static_cast<size_t>(dim);
    d[i] *= (base ? base[column] : 1) * learnt.value[column];
  });
}

// Where row `row` of step k finds what the step before left behind it.
size_t place_before(const PassageBatch& batch, int k, int row) {
  return static_cast<size_t>(
      batch.steps[static_cast<size_t>(k) - 1].slot[static_cast<size_t>(row) - 1]);
}

// The state that row `row` of step k begins with.
const float* state_of(const BlockForm& form, const PassageBatch& batch, int k,
                      std::span<const BlockStep> steps, int row) {
  if (k == 0) return &batch.state[cells(row, form.state_dim())];
  const BlockStep& before = steps[static_cast<size_t>(k) - 1];
  const std::vector<float>& left = form.eagle3() ? before.out : before.y;
  return &left[place_before(batch, k, row) * static_cast<size_t>(form.dim)];
}

// u of steps[k].
void enter(const Gemm& gemm, const LearningHead& head, const BlockForm& form,
           const PassageBatch& batch, int k, std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  fit(step.u, cells(n, dim));
  if (!form.maps(k)) {
    for_rows(gemm, n, [&](int r) {
      const float* state = state_of(form, batch, k, steps, rows[static_cast<size_t>(r)]);
      float* u = &step.u[cells(r, dim)];
      for (int i = 0; i < dim; ++i) u[i] = form.unit() * state[i];
    });
    return;
  }
  block_inputs(gemm, form, batch, k, steps);
  times(gemm, n, step.in, form.map_inputs(), head.map, dim, step.u);
  if (!form.eagle()) return;
  for_values(gemm, cells(n, dim), [&](size_t i) {
    step.u[i] += head.block.map_bias.value[i % static_cast<size_t>(dim)];
  });
}

// From du (n, dim), the gradient of u: that of W and of what the step before left.
void enter_back(const Gemm& gemm, LearningHead& head, const BlockForm& form,
                const PassageBatch& batch, int k, std::span<BlockStep> steps,
                const std::vector<float>& du) {
  const BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim, n_in = form.map_inputs();
  if (form.eagle()) {
    for (int r = 0; r < n; ++r) {
      add_scaled(dim, 1, &du[cells(r, dim)], head.block.map_bias.gradient.data());
    }
  }
  std::vector<float> d_in;
  if (k == 0) {  // the model's own states learn nothing
    if (form.maps(k)) add_outer(gemm, n, dim, n_in, du.data(), step.in.data(), head.map.gradient);
    return;
  }
  if (form.maps(k)) times_back(gemm, n, step.in, n_in, head.map, dim, du, d_in);
  BlockStep& from = steps[static_cast<size_t>(k) - 1];
  for_rows(gemm, n, [&](int r) {
    const size_t before =
        place_before(batch, k, rows[static_cast<size_t>(r)]) * static_cast<size_t>(dim);
    if (form.eagle3()) return add_scaled(dim, 1, &du[cells(r, dim)], &from.d_out[before]);
    const size_t half = cells(r, n_in) + static_cast<size_t>(dim);
    if (form.eagle()) return add_scaled(dim, form.unit(), &d_in[half], &from.dy[before]);
    norm_row_back(dim, &step.in[half], step.in_scale[static_cast<size_t>(r)], &d_in[half],
                  &from.dy[before]);
  });
}

// What q, k and v multiply, once attention_inputs() was here.
const std::vector<float>& attending(const BlockForm& form, const BlockStep& step) {
  return form.eagle() ? step.u : form.kind == HeadKind::kLayer ? step.u_normed : step.a;
}

void attention_inputs(const Gemm& gemm, const LearningBlock& block, const BlockForm& form,
                      const PassageBatch& batch, const std::vector<int>& rows, BlockStep& step) {
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  if (form.eagle()) return;
  norm_rows(gemm, n, dim, form.norm_eps, step.u, step.u_normed, step.u_scale);
  if (form.adapter()) weigh(gemm, n, dim, nullptr, block.attn_norm, step.u_normed, step.a);
  if (!form.eagle3()) return;
  fit(step.a, cells(n, 2 * dim));
  for_rows(gemm, n, [&](int r) {
    const float* x = &batch.x[cells(rows[static_cast<size_t>(r)], dim)];
    const float* u = &step.u_normed[cells(r, dim)];
    float* a = &step.a[cells(r, 2 * dim)];
    for (size_t i = 0; i < static_cast<size_t>(dim); ++i) {
      a[i] = block.embedding_norm.value[i] * x[i];
      a[static_cast<size_t>(dim) + i] = block.attn_norm.value[i] * u[i];
    }
  });
}

// From da, their gradient: du (n, dim) += that of u.
void attention_inputs_back(const Gemm& gemm, LearningBlock& block, const BlockForm& form,
                           const PassageBatch& batch, const std::vector<int>& rows,
                           const BlockStep& step, std::vector<float>& da, std::vector<float>& du) {
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  if (form.eagle()) {
    return for_values(gemm, cells(n, dim), [&](size_t i) { du[i] += da[i]; });
  }
  if (form.eagle3()) {
    std::vector<float> of_u(cells(n, dim));
    for (int r = 0; r < n; ++r) {
      const float* x = &batch.x[cells(rows[static_cast<size_t>(r)], dim)];
      const float* d = &da[cells(r, 2 * dim)];
      for (size_t i = 0; i < static_cast<size_t>(dim); ++i) {
        block.embedding_norm.gradient[i] += d[i] * x[i];
      }
      std::copy_n(d + dim, dim, &of_u[cells(r, dim)]);
    }
    da.swap(of_u);
  }
  if (form.kind != HeadKind::kLayer) {
    weigh_back(gemm, n, dim, nullptr, block.attn_norm, step.u_normed, da);
  }
  norm_rows_back(gemm, n, dim, step.u_normed, step.u_scale, da, du);
}

// What gate and up multiply.
const std::vector<float>& feeding(const BlockForm& form, const BlockStep& step) {
  return form.kind == HeadKind::kLayer ? step.h_normed : step.f;
}

// out of h.
void feed_forward(const Gemm& gemm, const LearningBlock& block, const BlockForm& form, int n,
                  BlockStep& step) {
  const int dim = form.dim;
  fit(step.out, cells(n, dim));
  std::copy_n(step.h.begin(), cells(n, dim), step.out.begin());
  if (form.n_inner == 0) return;
  norm_rows(gemm, n, dim, form.norm_eps, step.h, step.h_normed, step.h_scale);
  if (form.kind != HeadKind::kLayer) {
    weigh(gemm, n, dim, nullptr, block.ffn_norm, step.h_normed, step.f);
  }
  times(gemm, n, feeding(form, step), dim, block.gate, form.n_inner, step.gate);
  times(gemm, n, feeding(form, step), dim, block.up, form.n_inner, step.up);
  fit(step.active, cells(n, form.n_inner));
  for_values(gemm, cells(n, form.n_inner),
             [&](size_t i) { step.active[i] = step.gate[i] * sigmoid(step.gate[i]) * step.up[i]; });
  times(gemm, n, step.active, form.n_inner, block.down, dim, step.out, 1);
}

// From du (n, dim), the gradient of out, which becomes that of h.
void feed_forward_back(const Gemm& gemm, LearningBlock& block, const BlockForm& form, int n,
                       const BlockStep& step, std::vector<float>& du) {
  if (form.n_inner == 0) return;
  const int dim = form.dim;
  std::vector<float> d_gate, d_up(cells(n, form.n_inner)), df;
  times_back(gemm, n, step.active, form.n_inner, block.down, dim, du, d_gate);
  for_values(gemm, cells(n, form.n_inner), [&](size_t i) {
    const float gate = step.gate[i], d = d_gate[i];
    d_up[i] = d * gate * sigmoid(gate);
    d_gate[i] = d * step.up[i] * silu_slope(gate);
  });
  times_back(gemm, n, feeding(form, step), dim, block.gate, form.n_inner, d_gate, df);
  times_back(gemm, n, feeding(form, step), dim, block.up, form.n_inner, d_up, df, 1);
  if (form.kind != HeadKind::kLayer) {
    weigh_back(gemm, n, dim, nullptr, block.ffn_norm, step.h_normed, df);
  }
  norm_rows_back(gemm, n, dim, step.h_normed, step.h_scale, df, du);
}

// y of out.
void leave(const Gemm& gemm, const LearningBlock& block, const BlockForm& form, int n,
           BlockStep& step) {
  const int dim = form.dim;
  if (form.eagle()) {
    fit(step.y, cells(n, dim));
    return for_values(gemm, cells(n, dim),
                      [&](size_t i) { step.y[i] = step.out[i] / form.unit(); });
  }
  norm_rows(gemm, n, dim, form.norm_eps, step.out, step.out_normed, step.out_scale);
  weigh(gemm, n, dim, form.norm.data(), block.norm, step.out_normed, step.y);
}

// The gradient (n, dim) of out; dy is used up.
std::vector<float> leave_back(const Gemm& gemm, LearningBlock& block, const BlockForm& form, int n,
                              BlockStep& step) {
  const int dim = form.dim;
  std::vector<float> du(cells(n, dim));
  if (form.eagle()) {
    for_values(gemm, cells(n, dim), [&](size_t i) { du[i] = step.dy[i] / form.unit(); });
    return du;
  }
  if (form.eagle3()) std::copy_n(step.d_out.begin(), du.size(), du.begin());
  weigh_back(gemm, n, dim, form.norm.data(), block.norm, step.out_normed, step.dy);
  norm_rows_back(gemm, n, dim, step.out_normed, step.out_scale, step.dy, du);
  return du;
}

}  // namespace

void block_inputs(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                  std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim, n_in = form.map_inputs();
  fit(step.in, cells(n, n_in));
  fit(step.in_scale, static_cast<size_t>(n));
  for_rows(gemm, n, [&](int r) {
    const int row = rows[static_cast<size_t>(r)];
    const float* state = state_of(form, batch, k, steps, row);
    float* in = &step.in[cells(r, n_in)];
    float& scale = step.in_scale[static_cast<size_t>(r)];
    if (!form.adapter() && !form.eagle3()) in = std::copy_n(&batch.x[cells(row, dim)], dim, in);
    if (form.kind == HeadKind::kLayer) return norm_row(dim, form.norm_eps, state, in, scale);
    for (int i = 0; i < form.state_dim(); ++i) {
      in[i] = form.state_factors[static_cast<size_t>(i / dim)] * state[i];
    }
    if (form.adapter()) norm_row(dim, form.norm_eps, in, in, scale);
  });
}

void block_forward(const Gemm& gemm, const LearningHead& head, const BlockForm& form,
                   const PassageBatch& batch, int k, std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  const LearningBlock& block = head.block;

  enter(gemm, head, form, batch, k, steps);
  attention_inputs(gemm, block, form, batch, rows, step);
  const std::vector<float>& a = attending(form, step);
  times(gemm, n, a, form.attn_inputs(), block.q, form.q_dim(), step.q);
  times(gemm, n, a, form.attn_inputs(), block.k, form.kv_dim(), step.k);
  times(gemm, n, a, form.attn_inputs(), block.v, form.kv_dim(), step.v);
  for_rows(gemm, n, [&](int r) {
    const int pos = place_in_passage(batch, rows[static_cast<size_t>(r)]);
    form.rotate(&step.q[cells(r, form.q_dim())], form.n_heads, pos);
    form.rotate(&step.k[cells(r, form.kv_dim())], form.n_kv_heads, pos);
  });
  attend(gemm, form, batch, k, steps);
  fit(step.h, cells(n, dim));
  std::copy_n(step.u.begin(), cells(n, dim), step.h.begin());
  times(gemm, n, step.attended, form.q_dim(), block.o, dim, step.h, 1);
  feed_forward(gemm, block, form, n, step);
  leave(gemm, block, form, n, step);
}

void clear_gradients(const BlockForm& form, const PassageBatch& batch, int k,
                     std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const int n = static_cast<int>(batch.steps[static_cast<size_t>(k)].rows.size());
  step.dy.assign(cells(n, form.dim), 0.0f);
  step.dk.assign(cells(n, form.kv_dim()), 0.0f);
  step.dv.assign(cells(n, form.kv_dim()), 0.0f);
  if (form.eagle3()) step.d_out.assign(cells(n, form.dim), 0.0f);
}

void block_backward(const Gemm& gemm, LearningHead& head, const BlockForm& form,
                    const PassageBatch& batch, int k, std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const std::vector<int>& rows = batch.steps[static_cast<size_t>(k)].rows;
  const int n = static_cast<int>(rows.size()), dim = form.dim;
  LearningBlock& block = head.block;

  // Of the residual stream, from its end to its beginning.
  std::vector<float> du = leave_back(gemm, block, form, n, step);
  feed_forward_back(gemm, block, form, n, step, du);

  std::vector<float> d_attended, dq, da;
  times_back(gemm, n, step.attended, form.q_dim(), block.o, dim, du, d_attended);
  attend_back(gemm, form, batch, k, steps, d_attended, dq);
  for_rows(gemm, n, [&](int r) {
    const int pos = place_in_passage(batch, rows[static_cast<size_t>(r)]);
    form.rotate_back(&dq[cells(r, form.q_dim())], form.n_heads, pos);
    form.rotate_back(&step.dk[cells(r, form.kv_dim())], form.n_kv_heads, pos);
  });
  const std::vector<float>& a = attending(form, step);
  times_back(gemm, n, a, form.attn_inputs(), block.q, form.q_dim(), dq, da);
  times_back(gemm, n, a, form.attn_inputs(), block.k, form.kv_dim(), step.dk, da, 1);
  times_back(gemm, n, a, form.attn_inputs(), block.v, form.kv_dim(), step.dv, da, 1);
  attention_inputs_back(gemm, block, form, batch, rows, step, da, du);
  enter_back(gemm, head, form, batch, k, steps, du);
}

}  // namespace specbound
