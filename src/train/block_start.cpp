#include "train/block_start.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "error.h"
#include "train/gradients.h"
#include "train/least_squares.h"

namespace specbound {

namespace {

using Doubles = std::vector<double>;

// M is known, so it keeps the solution finite and no more: of few tokens M has a lower rank than V.
// Of what M says it costs its faintest directions.
constexpr double kMapRidge = 1e-4;
// Of the moments' mean, as the ridge of the equations that M solves: sums in float leave
// eigenvalues of some -5e-6 of it in place of zeros.
constexpr double kMomentsRidge = 1e-3;
constexpr int kSweeps = 3;        // of alternating least squares
constexpr double kOfRank = 0.7;   // of the time: these sweeps
constexpr double kOwnScore = 10;  // of a position's own inputs: e^10 of others' shares
// Of what inputs are, summed over directions: one that has more than this part says little of which
// position it is, and is heard less. The mean of states may have half.
constexpr double kShared = 0.05;
// An adapter says the map by this factor louder than least squares does, which the norm behind it
// takes back: what V's rank leaves of the state that it is added to is quieter by as much.
constexpr double kLoudness = 4;

// (n, m) = op(a) op(b); op(a) is (n, inner), op(b) (inner, m).
Doubles product(const Gemm& gemm, Op a_op, Op b_op, int n, int m, int inner, const Doubles& a,
                const Doubles& b) {
  Doubles out(cells(n, m));
  gemm.multiply(a_op, b_op, n, m, inner, 1.0, a.data(), a_op == Op::kPlain ? inner : n, b.data(),
                b_op == Op::kPlain ? m : inner, 0.0, out.data(), m);
  return out;
}

double trace(int n, const Doubles& a) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[cells(i, n) + static_cast<size_t>(i)];
  return sum;
}

void add_to_diagonal(int n, double value, Doubles& a) {
  for (int i = 0; i < n; ++i) a[cells(i, n) + static_cast<size_t>(i)] += value;
}

Doubles uniform(int n, int m, uint64_t seed) {
  std::vector<float> values(cells(n, m));
  fill_uniform(seed, 1, values);
  return {values.begin(), values.end()};
}

// Rows (n, dim), each of length 1 or all zeros.
void set_lengths(int n, int dim, Doubles& rows) {
  for (int r = 0; r < n; ++r) {
    const auto row = rows.begin() + static_cast<ptrdiff_t>(cells(r, dim));
    double square = 0;
    for (int i = 0; i < dim; ++i) square += row[i] * row[i];
    const double length = std::sqrt(square);
    for (int i = 0; i < dim && length > 0; ++i) row[i] /= length;
  }
}

struct LowRank {
  std::vector<float> o;  // (dim, rank)
  Doubles v;             // (rank, dim), rows of length 1
};

// O V nearest to M (dim, dim) at the inputs that moments are of, by alternating least squares from
// random sums of M's rows: the subspace iteration of randomized singular value decompositions
// (Halko et al. 2011). nullopt as soon as `progress` says so.
std::optional<LowRank> low_rank(const Gemm& gemm, int dim, int rank, const Doubles& m,
                                const Doubles& moments, uint64_t seed,
                                const std::function<bool(double)>& progress) {
  LowRank found;
  found.v = product(gemm, Op::kPlain, Op::kPlain, rank, dim, dim, uniform(rank, dim, seed), m);
  set_lengths(rank, dim, found.v);
  const Doubles at_inputs = product(gemm, Op::kPlain, Op::kPlain, dim, dim, dim, m, moments);
  for (int sweep = 0;; ++sweep) {
    if (!progress(static_cast<double>(sweep) / (kSweeps + 1))) return std::nullopt;
    const Doubles of_v = product(gemm, Op::kPlain, Op::kPlain, rank, dim, dim, found.v, moments);
    LeastSquares for_o(
        rank, dim, product(gemm, Op::kPlain, Op::kTransposed, rank, rank, dim, of_v, found.v),
        product(gemm, Op::kPlain, Op::kTransposed, rank, dim, dim, found.v, at_inputs));
    found.o = for_o.solve(gemm, kMapRidge);
    if (sweep == kSweeps) return found;
    const Doubles o(found.o.begin(), found.o.end());
    LeastSquares for_v(rank, dim, product(gemm, Op::kTransposed, Op::kPlain, rank, rank, dim, o, o),
                       product(gemm, Op::kTransposed, Op::kPlain, rank, dim, dim, o, m));
    const std::vector<float> v = for_v.solve(gemm, kMapRidge);  // (dim, rank)
    for (int r = 0; r < rank; ++r) {
      for (int i = 0; i < dim; ++i) {
        found.v[cells(r, dim) + static_cast<size_t>(i)] =
            v[cells(i, rank) + static_cast<size_t>(r)];
      }
    }
    set_lengths(rank, dim, found.v);
  }
}

// (kv_dim, dim), rows for q and k alike: random ones, blind to what inputs share.
Doubles looking_rows(const Gemm& gemm, const BlockForm& form, const Doubles& moments,
                     uint64_t seed) {
  const int dim = form.dim, n = form.kv_dim();
  const double all = trace(dim, moments);
  Doubles l = moments;
  add_to_diagonal(dim, kShared * all, l);
  SB_CHECK(cholesky(gemm, dim, l.data()));
  for (int r = 0; r < dim; ++r) {
    std::fill_n(l.begin() + static_cast<ptrdiff_t>(cells(r, dim)) + r + 1, dim - r - 1, 0.0);
  }
  // Omega L^-1, as (L L^T)^-1 of L Omega^T.
  Doubles turned =
      product(gemm, Op::kPlain, Op::kTransposed, dim, n, dim, l, uniform(n, dim, seed));
  cholesky_solve(gemm, dim, n, l.data(), turned.data());  // (dim, n)
  const Doubles seen = product(gemm, Op::kPlain, Op::kPlain, dim, n, dim, moments, turned);
  // The sum over positions of what they score at their own, of the mean head. Each has |a|^2 = dim.
  double own = 0;
  for (size_t i = 0; i < seen.size(); ++i) own += seen[i] * turned[i];
  own *= form.score_scale / form.n_kv_heads / (all / dim);
  const double factor = std::sqrt(kOwnScore / own);
  Doubles rows(cells(n, dim));
  for (int r = 0; r < n; ++r) {
    for (int i = 0; i < dim; ++i) {
      rows[cells(r, dim) + static_cast<size_t>(i)] =
          factor * turned[cells(i, n) + static_cast<size_t>(r)];
    }
  }
  return rows;
}

}  // namespace

bool start_attention(const Gemm& gemm, const BlockForm& form, const std::vector<float>& map,
                     const std::vector<double>& moments, uint64_t seed, LearningHead& head,
                     const std::function<bool(double)>& progress) {
  const int dim = form.dim, size = form.head_dim, attends = form.attn_inputs();
  const int width = static_cast<int>(map.size()) / dim, of_w = width - dim;
  LearningBlock& block = head.block;
  // Rows are as near as the last norm makes them loud.
  const std::vector<float>& norm = form.norm;
  Doubles m(cells(dim, dim));
  for (int r = 0; r < dim; ++r) {
    const auto row = map.begin() + static_cast<ptrdiff_t>(cells(r, width));
    std::copy_n(row, of_w, head.map.value.begin() + static_cast<ptrdiff_t>(cells(r, of_w)));
    for (int i = 0; i < dim; ++i) {
      double says = row[of_w + i];
      if (form.adapter()) says = kLoudness * says - (i == r);
      m[cells(r, dim) + static_cast<size_t>(i)] = norm[static_cast<size_t>(r)] * says;
    }
  }
  Doubles inputs = moments;
  add_to_diagonal(dim, kMomentsRidge * trace(dim, moments) / dim, inputs);
  if (trace(dim, inputs) == 0) return true;
  const auto found = low_rank(gemm, dim, form.kv_dim(), m, inputs, seed,
                              [&](double done) { return progress(kOfRank * done); });
  if (!found || !progress(kOfRank)) return false;
  const auto& [o, v] = *found;
  const Doubles looking = looking_rows(gemm, form, inputs, seed + 1);
  for (int r = 0; r < form.kv_dim(); ++r) {
    const auto from = static_cast<ptrdiff_t>(cells(r, dim));
    const auto to = static_cast<ptrdiff_t>(cells(r, attends));
    std::copy_n(v.begin() + from, dim, block.v.value.begin() + to);
    std::fill_n(block.v.value.begin() + to + dim, attends - dim, 0.0f);
    std::copy_n(looking.begin() + from, dim, block.k.value.begin() + to);
  }
  const int group = form.n_heads / form.n_kv_heads;
  for (int kv = 0; kv < form.n_kv_heads; ++kv) {
    const int first = kv * group * size;  // of q's rows and o's columns
    std::copy_n(&block.k.value[cells(kv * size, attends)], cells(size, attends),
                &block.q.value[cells(first, attends)]);
    for (int r = 0; r < dim; ++r) {
      const float weight = norm[static_cast<size_t>(r)];
      for (int i = 0; i < size && weight != 0; ++i) {
        block.o.value[cells(r, form.q_dim()) + static_cast<size_t>(first + i)] =
            o[cells(r, form.kv_dim()) + static_cast<size_t>(kv * size + i)] / weight;
      }
    }
  }
  return true;
}

}  // namespace specbound
