// Products of matrices against sums in double, with the bound that the analysis of rounding gives,
// and the least squares that stand on them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "error.h"
#include "farther.h"
#include "train/gemm.h"
#include "train/least_squares.h"

namespace gemm_test {

using namespace specbound;

namespace {

// Even in -1..1, the same everywhere.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-52 - 1;
  }
  template <typename T>
  std::vector<T> vector(size_t n) {
    std::vector<T> values(n);
    for (T& v : values) v = static_cast<T>(next());
    return values;
  }

 private:
  uint64_t state_;
};

// A sum of k products, each rounded, in any order, then alpha times it and beta times c added:
// at most k + 3 roundings on the way of any term (Higham, Accuracy and Stability, section 3.1).
template <typename T>
double rounding_bound(int k) {
  const double u = 0.5 * std::numeric_limits<T>::epsilon(), n = k + 3;
  return n * u / (1 - n * u);
}

template <typename T>
void check_product(const Gemm& gemm, Op a_op, Op b_op, int m, int n, int k, T alpha, T beta) {
  CAPTURE(gemm.name());
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  Numbers numbers(static_cast<uint64_t>(m * 7919 + n * 31 + k));
  // Rows with a gap between them.
  const int lda = (a_op == Op::kPlain ? k : m) + 3, ldb = (b_op == Op::kPlain ? n : k) + 1;
  const int ldc = n + 2;
  const auto a = numbers.vector<T>(static_cast<size_t>(a_op == Op::kPlain ? m : k) * lda);
  const auto b = numbers.vector<T>(static_cast<size_t>(b_op == Op::kPlain ? k : n) * ldb);
  const auto before = numbers.vector<T>(static_cast<size_t>(m) * ldc);
  auto c = before;
  if (beta == 0) {  // must not be read
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) c[static_cast<size_t>(i) * ldc + j] = std::nan("");
    }
  }
  gemm.multiply(a_op, b_op, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
  int wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < ldc; ++j) {
      const size_t at = static_cast<size_t>(i) * ldc + static_cast<size_t>(j);
      if (j >= n) {
        wrong += c[at] != before[at];  // the gap is not ours
        continue;
      }
      long double sum = 0, size = 0;
      for (int p = 0; p < k; ++p) {
        const size_t ia = static_cast<size_t>(a_op == Op::kPlain ? i : p) * lda +
                          static_cast<size_t>(a_op == Op::kPlain ? p : i);
        const size_t ib = static_cast<size_t>(b_op == Op::kPlain ? p : j) * ldb +
                          static_cast<size_t>(b_op == Op::kPlain ? j : p);
        const long double product = static_cast<long double>(a[ia]) * b[ib];
        sum += product;
        size += std::fabs(product);
      }
      const long double old = beta == 0 ? 0 : static_cast<long double>(beta) * before[at];
      const long double expected = alpha * sum + old;
      const long double most = rounding_bound<T>(k) * (std::fabs(alpha) * size + std::fabs(old));
      wrong += !(std::fabs(c[at] - expected) <= most);
    }
  }
  CHECK(wrong == 0);
}

template <typename T>
void check_all_products(Gemm::Use use, Isa isa = best_isa()) {
  ThreadPool pool(2);
  const Gemm gemm(pool, use, isa);
  for (const Op a : {Op::kPlain, Op::kTransposed}) {
    for (const Op b : {Op::kPlain, Op::kTransposed}) {
      check_product<T>(gemm, a, b, 1, 1, 1, 1, 0);
      check_product<T>(gemm, a, b, 7, 17, 5, 1, 0);
      check_product<T>(gemm, a, b, 3, 5, 0, 1, T(0.5));
      check_product<T>(gemm, a, b, 130, 259, 300, T(-0.75), T(0.5));
      check_product<T>(gemm, a, b, 65, 33, 513, 2, 1);
    }
  }
}

}  // namespace

TEST_CASE("our own products are as near as rounding allows") {
  for (const Isa isa : kIsas) {
    CAPTURE(isa_name(isa));
    if (!isa_supported(isa)) continue;
    check_all_products<float>(Gemm::Use::kOwn, isa);
    check_all_products<double>(Gemm::Use::kOwn, isa);
  }
}

TEST_CASE("the best products to be had are as near as rounding allows") {
  check_all_products<float>(Gemm::Use::kBest);
  check_all_products<double>(Gemm::Use::kBest);
}

TEST_CASE("products do not depend on the number of threads") {
  constexpr int kM = 300, kN = 517, kK = 700;
  Numbers numbers(1);
  const auto a = numbers.vector<float>(size_t{kM} * kK), b = numbers.vector<float>(size_t{kK} * kN);
  for (const Gemm::Use use : {Gemm::Use::kOwn, Gemm::Use::kBest}) {
    std::vector<float> results[2];
    for (const int i : {0, 1}) {
      ThreadPool pool(i == 0 ? 1 : 3);
      const Gemm gemm(pool, use);
      results[i].resize(size_t{kM} * kN);
      gemm.multiply(Op::kPlain, Op::kPlain, kM, kN, kK, 1.0f, a.data(), kK, b.data(), kN, 0.0f,
                    results[i].data(), kN);
    }
    CHECK(std::memcmp(results[0].data(), results[1].data(), results[0].size() * 4) == 0);
  }
}

TEST_CASE("Cholesky solves what it factored") {
  constexpr int kN = 200, kM = 70;  // several blocks, the last one not whole
  ThreadPool pool(2);
  const Gemm gemm(pool);
  Numbers numbers(2);
  const auto r = numbers.vector<double>(size_t{kN} * kN);
  std::vector<double> a(size_t{kN} * kN);
  gemm.multiply(Op::kTransposed, Op::kPlain, kN, kN, kN, 1.0, r.data(), kN, r.data(), kN, 0.0,
                a.data(), kN);
  for (int i = 0; i < kN; ++i) a[static_cast<size_t>(i) * kN + i] += 1;
  const auto x = numbers.vector<double>(size_t{kN} * kM);
  std::vector<double> b(size_t{kN} * kM);
  gemm.multiply(Op::kPlain, Op::kPlain, kN, kM, kN, 1.0, a.data(), kN, x.data(), kM, 0.0, b.data(),
                kM);
  REQUIRE(cholesky(gemm, kN, a.data()));
  cholesky_solve(gemm, kN, kM, a.data(), b.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = test::farther(worst, std::fabs(x[i] - b[i]));
  CHECK(worst < 1e-9);  // the condition is below 1e4

  std::vector<double> indefinite = {1, 2, 2, 1};
  CHECK_FALSE(cholesky(gemm, 2, indefinite.data()));
}

TEST_CASE("least squares find a planted map") {
  constexpr int kRows = 3000, kIn = 48, kOut = 20;
  ThreadPool pool(2);
  for (const Gemm::Use use : {Gemm::Use::kOwn, Gemm::Use::kBest}) {
    const Gemm gemm(pool, use);
    Numbers numbers(3);
    const auto w = numbers.vector<float>(size_t{kOut} * kIn);
    const auto u = numbers.vector<float>(size_t{kRows} * kIn);
    std::vector<float> y(size_t{kRows} * kOut);
    gemm.multiply(Op::kPlain, Op::kTransposed, kRows, kOut, kIn, 1.0f, u.data(), kIn, w.data(), kIn,
                  0.0f, y.data(), kOut);
    LeastSquares equations(kIn, kOut);
    // In parts, as chunks come.
    equations.add(gemm, 1700, u.data(), y.data());
    equations.add(gemm, kRows - 1700, u.data() + size_t{1700} * kIn,
                  y.data() + size_t{1700} * kOut);
    const std::vector<float> found = equations.solve(gemm, 1e-9);
    double worst = 0;
    for (size_t i = 0; i < w.size(); ++i) worst = test::farther(worst, std::fabs(found[i] - w[i]));
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("least squares: no rows, rows that are all alike, rows that are no numbers") {
  ThreadPool pool(1);
  const Gemm gemm(pool);
  CHECK(LeastSquares(3, 2).solve(gemm, 1e-3) == std::vector<float>(6));

  LeastSquares alike(2, 1);
  const std::vector<float> u = {1, 1, 1, 1}, y = {2, 2};
  alike.add(gemm, 2, u.data(), y.data());
  const std::vector<float> half = alike.solve(gemm, 1e-6);
  CHECK(half[0] == doctest::Approx(1).epsilon(1e-4));
  CHECK(half[1] == doctest::Approx(1).epsilon(1e-4));

  LeastSquares broken(2, 1);
  const std::vector<float> nan = {1, std::nanf("")};
  broken.add(gemm, 1, nan.data(), y.data());
  CHECK_THROWS_AS(broken.solve(gemm, 1e-3), Error);
}

}  // namespace gemm_test
