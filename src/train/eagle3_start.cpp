#include "train/eagle3_start.h"

#include <algorithm>
#include <cmath>

#include "train/gradients.h"
#include "train/least_squares.h"

namespace specbound {

namespace {

// M is known, so it keeps the solution finite and no more: of few tokens M has a lower rank than V,
// and sums in float then leave eigenvalues of some -5e-6 of the mean square in place of zeros. Of
// what M says it costs its faintest directions.
constexpr double kMapRidge = 1e-4;
constexpr float kOwnScore = 10;  // of a position's own token: e^10 of other tokens' shares

// (rows, columns) of a, from column `first` of `width` on.
std::vector<float> columns_of(const std::vector<float>& a, int rows, int width, int first,
                              int columns) {
  std::vector<float> part(cells(rows, columns));
  for (int r = 0; r < rows; ++r) {
    std::copy_n(&a[cells(r, width) + static_cast<size_t>(first)], columns,
                &part[cells(r, columns)]);
  }
  return part;
}

std::vector<float> transposed(const std::vector<float>& a, int rows, int columns) {
  std::vector<float> out(a.size());
  for (int r = 0; r < rows; ++r) {
    const float* row = &a[cells(r, columns)];
    for (int c = 0; c < columns; ++c) out[cells(c, rows) + static_cast<size_t>(r)] = row[c];
  }
  return out;
}

// (n, dim) random sums of the rows of M (dim, dim), each of length 1: by what its large directions
// weigh, as in randomized singular value decompositions (Halko et al. 2011).
std::vector<float> sketch(const Gemm& gemm, const std::vector<float>& m, int n, int dim,
                          uint64_t seed) {
  std::vector<float> random(cells(n, dim)), rows(cells(n, dim));
  fill_uniform(seed, 1, random);
  gemm.multiply(Op::kPlain, Op::kPlain, n, dim, dim, 1.0f, random.data(), dim, m.data(), dim, 0.0f,
                rows.data(), dim);
  for (int r = 0; r < n; ++r) {
    float* row = &rows[cells(r, dim)];
    const float length = std::sqrt(dot(dim, row, row));
    for (int i = 0; i < dim && length > 0; ++i) row[i] /= length;
  }
  return rows;
}

}  // namespace

void start_eagle3(const Gemm& gemm, const BlockForm& form, const std::vector<float>& map,
                  uint64_t seed, LearningHead& head) {
  const int dim = form.dim, n_in = form.map_inputs(), width = n_in + dim, size = form.head_dim;
  LearningBlock& block = head.block;
  head.map.value = columns_of(map, dim, width, 0, n_in);
  const std::vector<float> m = columns_of(map, dim, width, n_in, dim);
  const std::vector<float> v = sketch(gemm, m, form.kv_dim(), dim, seed);
  LeastSquares of_v(form.kv_dim(), dim);
  of_v.add(gemm, dim, transposed(v, form.kv_dim(), dim).data(), transposed(m, dim, dim).data());
  const std::vector<float> o = of_v.solve(gemm, kMapRidge);  // (dim, kv_dim)

  for (int r = 0; r < form.kv_dim(); ++r) {
    float* row = &block.v.value[cells(r, 2 * dim)];
    std::copy_n(&v[cells(r, dim)], dim, row);
    std::fill_n(row + dim, dim, 0.0f);
  }
  std::vector<float> key(cells(form.kv_dim(), dim));
  const float variance =
      kOwnScore / (static_cast<float>(dim) * static_cast<float>(size) * form.score_scale);
  fill_uniform(seed + 1, std::sqrt(3 * variance), key);
  for (int r = 0; r < form.kv_dim(); ++r) {
    std::copy_n(&key[cells(r, dim)], dim, &block.k.value[cells(r, 2 * dim)]);
  }
  const int group = form.n_heads / form.n_kv_heads;
  for (int kv = 0; kv < form.n_kv_heads; ++kv) {
    const int first = kv * group * size;  // of q's rows and o's columns
    std::copy_n(&block.k.value[cells(kv * size, 2 * dim)], cells(size, 2 * dim),
                &block.q.value[cells(first, 2 * dim)]);
    for (int r = 0; r < dim; ++r) {
      std::copy_n(&o[cells(r, form.kv_dim()) + static_cast<size_t>(kv * size)], size,
                  &block.o.value[cells(r, form.q_dim()) + static_cast<size_t>(first)]);
    }
  }
}

}  // namespace specbound
