#include "train/layer_attention.h"

#include <algorithm>
#include <cmath>

#include "train/gradients.h"

namespace specbound {

namespace {

// Where a step's rows of one passage and head are, and the true states that they look at.
struct Part {
  int begin, n;        // of the step's rows
  int first, n_first;  // of step 0's: the passage
  int head, kv_head;
  size_t shares;  // where shares (n, n_first) begin
};

std::vector<Part> parts_of(const BlockForm& form, const PassageBatch& batch, int k,
                           size_t* n_shares) {
  std::vector<Part> parts;
  size_t shares = 0;
  const std::vector<int>& begin = batch.steps[static_cast<size_t>(k)].begin;
  for (size_t p = 0; p + 1 < batch.first.size(); ++p) {
    const int n = begin[p + 1] - begin[p], n_first = batch.first[p + 1] - batch.first[p];
    for (int head = 0; n > 0 && head < form.n_heads; ++head) {
      parts.push_back({begin[p], n, batch.first[p], n_first, head,
                       head / (form.n_heads / form.n_kv_heads), shares});
      shares += cells(n, n_first);
    }
  }
  *n_shares = shares;
  return parts;
}

// Of one row of a step: its place in its passage, and where its chain's newest K and V are.
struct Chain {
  const PassageBatch& batch;
  int k;
  int row(int r) const { return batch.steps[static_cast<size_t>(k)].rows[static_cast<size_t>(r)]; }
  // Of step n, 1..k.
  int slot(int r, int n) const {
    return batch.steps[static_cast<size_t>(n)].slot[static_cast<size_t>(row(r) - (k - n))];
  }
};

// shares and own_shares, from scores to their softmax; behind the true states that a row sees
// stand zeros.
void softmax_scores(const Gemm& gemm, const std::vector<Part>& parts, const BlockForm& form,
                    const PassageBatch& batch, int k, std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const Chain chain{batch, k};
  for_blocks(gemm.pool(), std::ssize(parts), 1, [&](int64_t p, int64_t) {
    const Part& part = parts[static_cast<size_t>(p)];
    for (int i = 0; i < part.n; ++i) {
      const int r = part.begin + i;
      const int seen = chain.row(r) - part.first - k + 1;
      float* shares = &step.shares[part.shares + cells(i, part.n_first)];
      float* own = step.own_shares.data() + (cells(r, form.n_heads) + part.head) * k;
      const float* q = &step.q[cells(r, form.q_dim()) + part.head * form.head_dim];
      float most = *std::max_element(shares, shares + seen);
      for (int n = 1; n <= k; ++n) {
        const float* key =
            &steps[static_cast<size_t>(n)]
                 .k[cells(chain.slot(r, n), form.kv_dim()) + part.kv_head * form.head_dim];
        own[n - 1] = form.score_scale * dot(form.head_dim, q, key);
        most = std::max(most, own[n - 1]);
      }
      float sum = 0;
      for (int j = 0; j < seen; ++j) sum += shares[j] = std::exp(shares[j] - most);
      for (int n = 0; n < k; ++n) sum += own[n] = std::exp(own[n] - most);
      for (int j = 0; j < seen; ++j) shares[j] /= sum;
      for (int n = 0; n < k; ++n) own[n] /= sum;
      std::fill(shares + seen, shares + part.n_first, 0.0f);
    }
  });
}

}  // namespace

void attend(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
            std::span<BlockStep> steps) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const int n = static_cast<int>(batch.steps[static_cast<size_t>(k)].rows.size());
  const int size = form.head_dim, q_dim = form.q_dim(), kv_dim = form.kv_dim();
  size_t n_shares;
  const std::vector<Part> parts = parts_of(form, batch, k, &n_shares);
  fit(step.shares, n_shares);
  fit(step.own_shares, cells(n, form.n_heads) * static_cast<size_t>(k));
  fit(step.attended, cells(n, q_dim));
  const auto key = [&](const Part& p) { return cells(p.first, kv_dim) + p.kv_head * size; };
  const auto query = [&](const Part& p) { return cells(p.begin, q_dim) + p.head * size; };
  for (const Part& p : parts) {
    gemm.multiply(Op::kPlain, Op::kTransposed, p.n, p.n_first, size, form.score_scale,
                  &step.q[query(p)], q_dim, &steps[0].k[key(p)], kv_dim, 0.0f,
                  &step.shares[p.shares], p.n_first);
  }
  softmax_scores(gemm, parts, form, batch, k, steps);
  for (const Part& p : parts) {
    gemm.multiply(Op::kPlain, Op::kPlain, p.n, size, p.n_first, 1.0f, &step.shares[p.shares],
                  p.n_first, &steps[0].v[key(p)], kv_dim, 0.0f, &step.attended[query(p)], q_dim);
  }
  const Chain chain{batch, k};
  const int group = form.n_heads / form.n_kv_heads;
  for_rows(gemm, n, [&](int r) {
    for (int h = 0; h < form.n_heads; ++h) {
      for (int own = 1; own <= k; ++own) {
        add_scaled(size, step.own_shares[(cells(r, form.n_heads) + h) * k + own - 1],
                   &steps[static_cast<size_t>(own)]
                        .v[cells(chain.slot(r, own), kv_dim) + h / group * size],
                   &step.attended[cells(r, q_dim) + h * size]);
      }
    }
  });
}

void attend_back(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                 std::span<BlockStep> steps, const std::vector<float>& d, std::vector<float>& dq) {
  BlockStep& step = steps[static_cast<size_t>(k)];
  const int n = static_cast<int>(batch.steps[static_cast<size_t>(k)].rows.size());
  const int size = form.head_dim, q_dim = form.q_dim(), kv_dim = form.kv_dim();
  const int group = form.n_heads / form.n_kv_heads;
  size_t n_shares;
  const std::vector<Part> parts = parts_of(form, batch, k, &n_shares);
  const auto key = [&](const Part& p) { return cells(p.first, kv_dim) + p.kv_head * size; };
  const auto query = [&](const Part& p) { return cells(p.begin, q_dim) + p.head * size; };
  std::vector<float> d_shares(n_shares);  // then of the scores
  std::vector<float> d_own(cells(n, form.n_heads) * static_cast<size_t>(k));
  for (const Part& p : parts) {
    gemm.multiply(Op::kPlain, Op::kTransposed, p.n, p.n_first, size, 1.0f, &d[query(p)], q_dim,
                  &steps[0].v[key(p)], kv_dim, 0.0f, &d_shares[p.shares], p.n_first);
    gemm.multiply(Op::kTransposed, Op::kPlain, p.n_first, size, p.n, 1.0f, &step.shares[p.shares],
                  p.n_first, &d[query(p)], q_dim, 1.0f, &steps[0].dv[key(p)], kv_dim);
  }
  const Chain chain{batch, k};
  for_blocks(gemm.pool(), std::ssize(parts), 1, [&](int64_t index, int64_t) {
    const Part& p = parts[static_cast<size_t>(index)];
    for (int i = 0; i < p.n; ++i) {
      const int r = p.begin + i;
      const size_t own = (cells(r, form.n_heads) + p.head) * k;
      const float* shares = &step.shares[p.shares + cells(i, p.n_first)];
      float* ds = &d_shares[p.shares + cells(i, p.n_first)];
      float along = dot(p.n_first, shares, ds);
      for (int of = 1; of <= k; ++of) {
        const float* v =
            &steps[static_cast<size_t>(of)].v[cells(chain.slot(r, of), kv_dim) + p.kv_head * size];
        float& one = d_own[own + of - 1];
        one = dot(size, &d[cells(r, q_dim) + p.head * size], v);
        along += step.own_shares[own + of - 1] * one;
      }
      for (int j = 0; j < p.n_first; ++j) ds[j] = shares[j] * (ds[j] - along);
      for (int of = 0; of < k; ++of) {
        d_own[own + of] = step.own_shares[own + of] * (d_own[own + of] - along);
      }
    }
  });
  fit(dq, cells(n, q_dim));
  for (const Part& p : parts) {
    gemm.multiply(Op::kPlain, Op::kPlain, p.n, size, p.n_first, form.score_scale,
                  &d_shares[p.shares], p.n_first, &steps[0].k[key(p)], kv_dim, 0.0f, &dq[query(p)],
                  q_dim);
    gemm.multiply(Op::kTransposed, Op::kPlain, p.n_first, size, p.n, form.score_scale,
                  &d_shares[p.shares], p.n_first, &step.q[query(p)], q_dim, 1.0f,
                  &steps[0].dk[key(p)], kv_dim);
  }
  // No two rows of a step have a K or V of their own chains in common.
  for_rows(gemm, n, [&](int r) {
    for (int h = 0; h < form.n_heads; ++h) {
      const size_t mine = cells(r, q_dim) + static_cast<size_t>(h) * size;
      for (int of = 1; of <= k; ++of) {
        BlockStep& from = steps[static_cast<size_t>(of)];
        const size_t there =
            cells(chain.slot(r, of), kv_dim) + static_cast<size_t>(h / group) * size;
        const size_t own = (cells(r, form.n_heads) + h) * k + of - 1;
        const float ds = form.score_scale * d_own[own];
        add_scaled(size, step.own_shares[own], &d[mine], &from.dv[there]);
        add_scaled(size, ds, &from.k[there], &dq[mine]);
        add_scaled(size, ds, &step.q[mine], &from.dk[there]);
      }
    }
  });
}

}  // namespace specbound
