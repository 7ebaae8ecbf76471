#include "train/place_heads.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/linear.h"
#include "error.h"
#include "train/gradients.h"
#include "train/head_learner.h"
#include "train/least_squares.h"

namespace specbound {

namespace {

// sums (n) += the rows of d (rows, n).
void add_rows(int rows, int n, const float* d, std::vector<float>& sums) {
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < n; ++i) sums[static_cast<size_t>(i)] += d[cells(r, n) + i];
  }
}

// A map of what comes without factors.
std::vector<float> with_factors(const Parameter& map, int dim, int n_in, const TokenRows& rows) {
  std::vector<float> values = map.value;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool state = static_cast<int>(i % static_cast<size_t>(n_in)) < dim;
    values[i] *= state ? rows.state_factor() : rows.token_factor();
  }
  return values;
}

}  // namespace

TokenRows::TokenRows(const Matrix& embedding, double state_size) : embedding_(embedding) {
  std::vector<float> row(static_cast<size_t>(embedding.n_in));
  double sum = 0;
  for (int token = 0; token < embedding.n_out; ++token) {
    read_row(embedding_, token, row.data());
    for (const float v : row) sum += static_cast<double>(v) * v;
  }
  const double size = std::sqrt(sum / static_cast<double>(cells(embedding.n_out, embedding.n_in)));
  if (size > 0) token_factor_ = static_cast<float>(1 / size);
  if (state_size > 0) state_factor_ = static_cast<float>(1 / state_size);
}

void TokenRows::read(int32_t token, float* row) const {
  SB_CHECK(token >= 0 && token < embedding_.n_out);
  read_row(embedding_, token, row);
  for (int i = 0; i < embedding_.n_in; ++i) row[i] *= token_factor_;
}

void TokenRows::read_normed(int32_t token, float eps, float* row) const {
  SB_CHECK(token >= 0 && token < embedding_.n_out);
  read_row(embedding_, token, row);
  const int dim = embedding_.n_in;
  const float scale = 1 / std::sqrt(dot(dim, row, row) / static_cast<float>(dim) + eps);
  for (int i = 0; i < dim; ++i) row[i] *= scale;
}

double state_size(const FeatureSource& features) {
  std::vector<float> y;
  for (int c = 0; y.empty() && c < features.n_chunks; ++c) y = features.load(c).y;
  SB_CHECK(!y.empty());
  double sum = 0;
  for (const float v : y) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(y.size()));
}

LearningHead place_head(HeadKind kind, int dim, int n) {
  LearningHead head;
  head.kind = kind;
  head.dim = dim;
  for (int k = 1; k <= n; ++k) {
    LearningPlace& place = head.places.emplace_back();
    const size_t weights = cells(dim, place_inputs(head, static_cast<size_t>(k)));
    place.map.resize(weights);
    place.bias.resize(static_cast<size_t>(dim));
    if (kind != HeadKind::kHydra) continue;
    place.residual.resize(weights);
    place.residual_bias.resize(static_cast<size_t>(dim));
  }
  return head;
}

void chain_inputs(const TokenRows& rows, const TrainingBatch& batch, size_t k, int n,
                  std::vector<float>& u) {
  SB_CHECK(batch.tokens.size() >= k);
  const size_t dim = batch.state.size() / static_cast<size_t>(batch.chained[0]);
  fit(u, static_cast<size_t>(n) * (k + 1) * dim);
  float* to = u.data();
  for (size_t r = 0; r < static_cast<size_t>(n); ++r) {
    for (size_t i = 0; i < dim; ++i) *to++ = rows.state_factor() * batch.state[r * dim + i];
    for (size_t j = 0; j < k; ++j, to += dim) rows.read(batch.tokens[j][r], to);
  }
}

void place_forward(const Gemm& gemm, const LearningHead& head, size_t k, int n,
                   const TrainingBatch& batch, const TokenRows& rows, HeadStep& step) {
  const LearningPlace& place = head.places[k - 1];
  const int dim = head.dim, n_in = place_inputs(head, k);
  const bool hydra = head.kind == HeadKind::kHydra;
  chain_inputs(rows, batch, hydra ? k : 0, n, step.u);
  const float* const u = step.u.data();
  fit(step.hidden, cells(n, dim));
  fit(step.y, cells(n, dim));
  gemm.multiply(Op::kPlain, Op::kTransposed, n, dim, n_in, 1.0f, u, n_in, place.map.value.data(),
                n_in, 0.0f, step.hidden.data(), dim);
  if (hydra) {
    gemm.multiply(Op::kPlain, Op::kTransposed, n, dim, n_in, 1.0f, u, n_in,
                  place.residual.value.data(), n_in, 0.0f, step.y.data(), dim);
  }
  for_values(gemm, cells(n, dim), [&](size_t i) {
    const size_t d = i % static_cast<size_t>(dim);
    step.hidden[i] += place.bias.value[d];
    const float before = hydra ? step.y[i] + place.residual_bias.value[d] : batch.state[i];
    step.y[i] = before + step.hidden[i] * sigmoid(step.hidden[i]);
  });
}

// Place by place, so that the final distribution of one position at a time is in memory. The
// logits that heads learn by are not capped, as those of a published head are not when it drafts.
void TrainingStep::by_place(std::span<LearningHead> heads, const TrainingBatch& batch,
                            std::span<double> losses) {
  HeadStep& step = steps_[0];
  for (size_t h = 0; h < heads.size(); ++h) {
    if (heads[h].by_place()) losses[h] = 0;
  }
  for (size_t k = 1; k <= batch.chained.size(); ++k) {
    const int n = batch.chained[k - 1];
    bool known = false;
    for (size_t h = 0; h < heads.size(); ++h) {
      LearningHead& head = heads[h];
      if (!head.by_place() || k > head.places.size()) continue;
      if (!known) set_targets(lm_head_, n, batch.y[k - 1].data(), whole_);
      known = true;
      const double rows = static_cast<double>(rows_of(head, batch.n, batch.chained));
      place_forward(gemm_, head, k, n, batch, *token_rows_, step);
      fit(dy_[0], cells(n, dim_));
      float* const dy = dy_[0].data();
      losses[h] +=
          loss_gradient(lm_head_, 0, n, step.y.data(), whole_, static_cast<float>(1 / rows), dy) /
          rows;
      LearningPlace& place = head.places[k - 1];
      const int n_in = place_inputs(head, k);
      const float* const u = step.u.data();
      if (head.kind == HeadKind::kHydra) {
        add_outer(gemm_, n, dim_, n_in, dy, u, place.residual.gradient);
        add_rows(n, dim_, dy, place.residual_bias.gradient);
      }
      for_values(gemm_, cells(n, dim_), [&](size_t i) { dy[i] *= silu_slope(step.hidden[i]); });
      add_outer(gemm_, n, dim_, n_in, dy, u, place.map.gradient);
      add_rows(n, dim_, dy, place.bias.gradient);
    }
  }
}

bool solve_places(const Gemm& gemm, const FeatureSource& features, const RowSplit& split,
                  const TokenRows& rows, const PlaceEquations& how, LearningHead& head,
                  const std::function<bool(double)>& progress) {
  const size_t n_places = head.places.size();
  const int n_chunks = split.first_chunk + (split.first_row > 0 ? 1 : 0);
  const BatchPlan plan = plan_of(std::span(&head, 1), {}, features.layers.size(), 0);
  std::vector<float> u;
  for (size_t first = 1, last = 0; first <= n_places; first = last + 1) {
    std::vector<LeastSquares> equations;
    for (size_t bytes = 0; last < n_places; ++last) {
      const int n_in = place_inputs(head, last + 1);
      bytes += cells(n_in, n_in + head.dim) * sizeof(double);
      if (!equations.empty() && bytes > how.most_bytes) break;
      equations.emplace_back(n_in, head.dim);
    }
    for (int c = 0; c < n_chunks; ++c) {
      Chunks one;
      const FeatureChunk& chunk = one.emplace(c, features.load(c)).first->second;
      const int end = c == split.first_chunk ? split.first_row : chunk.rows;
      const auto follows = std::span(chunk.follows).first(static_cast<size_t>(end));
      for (int begin = 0; begin < end; begin += kEquationRows) {
        const double pass = (c + static_cast<double>(begin) / end) / n_chunks;
        const double each = static_cast<double>(equations.size()) / static_cast<double>(n_places);
        if (!progress(static_cast<double>(first - 1) / static_cast<double>(n_places) +
                      each * pass)) {
          return false;
        }
        std::vector<RowAt> at;
        append_rows(follows, c, begin, std::min(end, begin + kEquationRows), plan.chains, at);
        TrainingBatch batch;
        fill_batch(one, plan, at, batch);
        for (size_t k = first; k <= std::min(last, batch.chained.size()); ++k) {
          const int n = batch.chained[k - 1];
          chain_inputs(rows, batch, k, n, u);
          equations[k - first].add(gemm, n, u.data(), batch.y[k - 1].data());
        }
      }
    }
    for (size_t k = first; k <= last; ++k) {
      head.places[k - 1].residual.value = equations[k - first].solve(gemm, how.ridge);
    }
  }
  return true;
}

NewHead finished_places(const LearningHead& head, const TokenRows& rows) {
  NewHead out;
  out.kind = head.kind;
  const int dim = head.dim;
  for (size_t k = 1; k <= head.places.size(); ++k) {
    const LearningPlace& place = head.places[k - 1];
    const int n_in = place_inputs(head, k);
    NewMedusaHead::Block block;
    block.map = {dim, n_in, with_factors(place.map, dim, n_in, rows)};
    block.bias = {1, dim, place.bias.value};
    if (head.kind == HeadKind::kHydra) {
      block.residual = {dim, n_in, with_factors(place.residual, dim, n_in, rows)};
      block.residual_bias = {1, dim, place.residual_bias.value};
    }
    out.medusa.emplace_back().blocks.push_back(std::move(block));
  }
  return out;
}

}  // namespace specbound
