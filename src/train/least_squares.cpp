// Blocked factorization: square blocks on the diagonal by hand, everything else as products.
#include "train/least_squares.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.h"
#include "train/blocks.h"

namespace specbound {

namespace {

constexpr int kPanel = 64;

// The block (n, n) on the diagonal. A pivot that is no positive number ends it: NaN too.
bool factor_block(int n, double* a, int stride) {
  for (int j = 0; j < n; ++j) {
    double* row_j = a + static_cast<size_t>(j) * stride;
    double pivot = row_j[j];
    for (int p = 0; p < j; ++p) pivot -= row_j[p] * row_j[p];
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    row_j[j] = std::sqrt(pivot);
    for (int i = j + 1; i < n; ++i) {
      double* row_i = a + static_cast<size_t>(i) * stride;
      double sum = row_i[j];
      for (int p = 0; p < j; ++p) sum -= row_i[p] * row_j[p];
      row_i[j] = sum / row_j[j];
    }
  }
  return true;
}

// row (n) becomes x with x L^T = row.
void solve_row(int n, const double* l, int stride, double* row) {
  for (int j = 0; j < n; ++j) {
    const double* l_row = l + static_cast<size_t>(j) * stride;
    double sum = row[j];
    for (int p = 0; p < j; ++p) sum -= row[p] * l_row[p];
    row[j] = sum / l_row[j];
  }
}

// b (n, m) becomes x with L x = b (forward), or L^T x = b; columns are independent.
void solve_block(bool forward, int n, int m, const double* l, int stride, double* b, int b_stride) {
  for (int step = 0; step < n; ++step) {
    const int i = forward ? step : n - 1 - step;
    double* row = b + static_cast<size_t>(i) * b_stride;
    for (int p = forward ? 0 : i + 1; p < (forward ? i : n); ++p) {
      const size_t at =
          forward ? static_cast<size_t>(i) * stride + p : static_cast<size_t>(p) * stride + i;
      const double* known = b + static_cast<size_t>(p) * b_stride;
      for (int c = 0; c < m; ++c) row[c] -= l[at] * known[c];
    }
    const double pivot = l[static_cast<size_t>(i) * stride + i];
    for (int c = 0; c < m; ++c) row[c] /= pivot;
  }
}

}  // namespace

bool cholesky(const Gemm& gemm, int n, double* a) {
  for (int j = 0; j < n; j += kPanel) {
    const int width = std::min(kPanel, n - j), below = n - j - width;
    double* corner = a + static_cast<size_t>(j) * n + j;
    if (!factor_block(width, corner, n)) return false;
    double* panel = corner + static_cast<size_t>(width) * n;
    for_blocks(gemm.pool(), below, 32, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) solve_row(width, corner, n, panel + i * n);
    });
    // The rest, lower triangle only: one product for each stretch of columns.
    constexpr int kStretch = 512;
    for (int c = 0; c < below; c += kStretch) {
      const int columns = std::min(kStretch, below - c);
      const double* rows = panel + static_cast<size_t>(c) * n;
      gemm.multiply(Op::kPlain, Op::kTransposed, below - c, columns, width, -1.0, rows, n, rows, n,
                    1.0, panel + static_cast<size_t>(c) * n + width + c, n);
    }
  }
  return true;
}

void cholesky_solve(const Gemm& gemm, int n, int m, const double* l, double* b) {
  const auto block_solve = [&](bool forward, int j, int width) {
    const double* corner = l + static_cast<size_t>(j) * n + j;
    for_blocks(gemm.pool(), m, 64, [&](int64_t begin, int64_t end) {
      solve_block(forward, width, static_cast<int>(end - begin), corner, n,
                  b + static_cast<size_t>(j) * m + begin, m);
    });
  };
  for (int j = 0; j < n; j += kPanel) {
    const int width = std::min(kPanel, n - j);
    block_solve(true, j, width);
    const int next = j + width;
    gemm.multiply(Op::kPlain, Op::kPlain, n - next, m, width, -1.0,
                  l + static_cast<size_t>(next) * n + j, n, b + static_cast<size_t>(j) * m, m, 1.0,
                  b + static_cast<size_t>(next) * m, m);
  }
  for (int j = (n - 1) / kPanel * kPanel; j >= 0; j -= kPanel) {
    const int width = std::min(kPanel, n - j);
    block_solve(false, j, width);
    gemm.multiply(Op::kTransposed, Op::kPlain, j, m, width, -1.0, l + static_cast<size_t>(j) * n, n,
                  b + static_cast<size_t>(j) * m, m, 1.0, b, m);
  }
}

LeastSquares::LeastSquares(int n_in, int n_out)
    : n_in_(n_in),
      n_out_(n_out),
      gram_(static_cast<size_t>(n_in) * n_in),
      cross_(static_cast<size_t>(n_in) * n_out) {}

LeastSquares::LeastSquares(int n_in, int n_out, std::vector<double> gram, std::vector<double> cross)
    : n_in_(n_in), n_out_(n_out), gram_(std::move(gram)), cross_(std::move(cross)) {
  SB_CHECK(gram_.size() == static_cast<size_t>(n_in) * n_in);
  SB_CHECK(cross_.size() == static_cast<size_t>(n_in) * n_out);
}

void LeastSquares::add(const Gemm& gemm, int rows, const float* u, const float* y) {
  part_.resize(static_cast<size_t>(n_in_) * std::max(n_in_, n_out_));
  const auto sum = [&](int n, const float* first, const float* second, int width, double* total) {
    gemm.multiply(Op::kTransposed, Op::kPlain, n_in_, width, n, 1.0f, first, n_in_, second, width,
                  0.0f, part_.data(), width);
    for_blocks(gemm.pool(), static_cast<int64_t>(n_in_) * width, 1 << 16,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) total[i] += part_[i];
               });
  };
  for (int r = 0; r < rows; r += kEquationRows) {
    const int n = std::min(kEquationRows, rows - r);
    const float* some = u + static_cast<size_t>(r) * n_in_;
    sum(n, some, some, n_in_, gram_.data());
    sum(n, some, y + static_cast<size_t>(r) * n_out_, n_out_, cross_.data());
  }
}

std::vector<double> LeastSquares::moments(int first) const {
  std::vector<double> some;
  some.reserve(cells(n_in_ - first, n_in_ - first));
  for (int i = first; i < n_in_; ++i) {
    const auto row = gram_.begin() + static_cast<ptrdiff_t>(cells(i, n_in_));
    some.insert(some.end(), row + first, row + n_in_);
  }
  return some;
}

std::vector<float> LeastSquares::solve(const Gemm& gemm, double ridge) {
  std::vector<float> w(static_cast<size_t>(n_out_) * n_in_);
  double mean = 0;
  for (int i = 0; i < n_in_; ++i) mean += gram_[static_cast<size_t>(i) * n_in_ + i] / n_in_;
  if (mean == 0) return w;
  for (int i = 0; i < n_in_; ++i) gram_[static_cast<size_t>(i) * n_in_ + i] += ridge * mean;
  if (!cholesky(gemm, n_in_, gram_.data())) {
    throw Error(ErrorCode::kFormat,
                "least squares: expected hidden states that are finite and not all alike; the "
                "model's are not, or there are too few rows: give more training text");
  }
  cholesky_solve(gemm, n_in_, n_out_, gram_.data(), cross_.data());
  for (int o = 0; o < n_out_; ++o) {
    for (int i = 0; i < n_in_; ++i) {
      w[static_cast<size_t>(o) * n_in_ + i] =
          static_cast<float>(cross_[static_cast<size_t>(i) * n_out_ + o]);
    }
  }
  gram_ = {};
  cross_ = {};
  part_ = {};
  return w;
}

}  // namespace specbound
