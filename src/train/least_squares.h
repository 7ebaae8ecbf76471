// Linear maps by ridge regression: the normal equations are summed in double over as many rows as
// there are, in one pass, and solved by Cholesky. The training-free start of every head (Tuned
// Lens, arXiv 2303.08112, and Din et al. 2303.09435 use maps of this kind as they are).
#pragma once

#include <vector>

#include "train/gemm.h"

namespace specbound {

// Rows whose products are summed in float; what comes of them is added in double.
inline constexpr int kEquationRows = 1024;

class LeastSquares {
 public:
  LeastSquares(int n_in, int n_out);
  // What others summed, as below.
  LeastSquares(int n_in, int n_out, std::vector<double> gram, std::vector<double> cross);

  // Rows u (rows, n_in) with the outputs y (rows, n_out) that the map should give.
  void add(const Gemm& gemm, int rows, const float* u, const float* y);

  // (n_in - first, n_in - first), the sum of u u^T so far, of the inputs from `first` on.
  std::vector<double> moments(int first) const;

  // W (n_out, n_in) that minimizes the sum of |y - W u|^2 + penalty |W|^2, the penalty being
  // `ridge` times the mean of |u_i|^2 summed over rows. No rows: zeros. Throws Error(kFormat) when
  // rows held what is no number. May be called once: the sums are used up.
  std::vector<float> solve(const Gemm& gemm, double ridge);

 private:
  int n_in_, n_out_;
  std::vector<double> gram_;   // (n_in, n_in), sum of u u^T
  std::vector<double> cross_;  // (n_in, n_out), sum of u y^T
  std::vector<float> part_;    // products of some rows, in float
};

// `a` (n, n) symmetric becomes its Cholesky factor L in the lower triangle (what is above is left
// as it was). False when `a` is not positive definite.
bool cholesky(const Gemm& gemm, int n, double* a);

// b (n, m) becomes the solution of L L^T x = b.
void cholesky_solve(const Gemm& gemm, int n, int m, const double* l, double* b);

}  // namespace specbound
