// Products of row-major matrices for training. OpenBLAS does them when the system has it (opened at
// run time, nothing to link), our own loops otherwise. The result is cut into tiles that depend on
// the shapes alone and each is one thread's, so the bits do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <string>

#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/thread_pool.h"

namespace specbound {

struct MicroKernel;

// Elements of a (rows, columns) matrix.
inline size_t cells(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

enum class Op { kPlain, kTransposed };

class Gemm {
 public:
  enum class Use { kBest, kOwn };
  // `isa`: of our own product, which this CPU must have.
  explicit Gemm(ThreadPool& pool, Use use = Use::kBest, Isa isa = best_isa());

  // "OpenBLAS 0.3.21" or "own kernels"
  const std::string& name() const { return name_; }
  ThreadPool& pool() const { return pool_; }

  // c (m, n) = alpha op(a) op(b) + beta c; op(a) is (m, k), op(b) is (k, n). A row of a, b or c
  // starts lda, ldb or ldc values after the one before it. With beta 0 c is not read.
  void multiply(Op a_op, Op b_op, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) const;
  void multiply(Op a_op, Op b_op, int m, int n, int k, double alpha, const double* a, int lda,
                const double* b, int ldb, double beta, double* c, int ldc) const;

 private:
  template <typename T, typename Blas>
  void tiles(Blas blas, Op a_op, Op b_op, int m, int n, int k, T alpha, const T* a, int lda,
             const T* b, int ldb, T beta, T* c, int ldc) const;

  ThreadPool& pool_;
  std::string name_;
  const MicroKernel& micro_;
  using SGemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using DGemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*,
                         int, double, double*, int);
  SGemm sgemm_ = nullptr;
  DGemm dgemm_ = nullptr;
};

}  // namespace specbound
