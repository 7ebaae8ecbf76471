// A libcublas.so.13 for tests: the few functions that the engine calls, computed on the host in the
// order of the SIMT executor's stream, by simt::submit of the program that opened it. It wants what
// the engine promises: a stream, then a workspace, FP16 factors, sums in FP32 without reductions in
// less.
#include <vector>

#include "engine/cuda/cublas.h"
#include "numerics/half.h"
#include "simt/device.h"

using specbound::cublas::Handle;
using specbound::cublas::Status;
namespace cublas = specbound::cublas;

namespace {

constexpr Status kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13;

struct State {
  CUstream_st* stream = nullptr;
  void* workspace = nullptr;
  int math_mode = 0;
};

struct Product {
  int a_op, b_op, m, n, k;
  float alpha, beta;
  const uint16_t* a;
  const uint16_t* b;
  void* c;
  void* workspace;
  int lda, ldb, ldc;
  bool half;
};

int fail_after = -1;  // products; -1: never

float value(const uint16_t* x, int op, int ld, int row, int column) {
  const size_t first = op == cublas::kPlain ? column : row;
  return specbound::half_to_float(x[first * ld + (op == cublas::kPlain ? row : column)]);
}

// Column j of c.
void compute(const Product& p, int j) {
  for (int i = 0; i < p.m; ++i) {
    float sum = 0;
    for (int l = 0; l < p.k; ++l) {
      sum += value(p.a, p.a_op, p.lda, i, l) * value(p.b, p.b_op, p.ldb, l, j);
    }
    const size_t at = static_cast<size_t>(j) * p.ldc + i;
    if (p.half) {
      static_cast<uint16_t*>(p.c)[at] = specbound::float_to_half(p.alpha * sum);
    } else {
      float& c = static_cast<float*>(p.c)[at];
      c = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * c;
    }
  }
}

}  // namespace

extern "C" {

void fake_cublas_fail_after(int products) {
  fail_after = products;
}

Status cublasGetProperty(int property, int* value) {
  *value = property == cublas::kMajor ? 13 : 7;
  return cublas::kSuccess;
}

const char* cublasGetStatusName(Status status) {
  return status == kNotInitialized ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == kInvalidValue ? "CUBLAS_STATUS_INVALID_VALUE"
                                   : "CUBLAS_STATUS_EXECUTION_FAILED";
}

Status cublasCreate_v2(Handle* handle) {
  *handle = new State;
  return cublas::kSuccess;
}

Status cublasDestroy_v2(Handle handle) {
  delete static_cast<State*>(handle);
  return cublas::kSuccess;
}

Status cublasSetStream_v2(Handle handle, CUstream_st* stream) {
  auto& state = *static_cast<State*>(handle);
  state.stream = stream;
  state.workspace = nullptr;
  return cublas::kSuccess;
}

Status cublasSetWorkspace_v2(Handle handle, void* memory, size_t bytes) {
  static_cast<State*>(handle)->workspace = bytes >= (size_t{4} << 20) ? memory : nullptr;
  return cublas::kSuccess;
}

Status cublasSetMathMode(Handle handle, int mode) {
  static_cast<State*>(handle)->math_mode = mode;
  return cublas::kSuccess;
}

Status cublasGemmEx(Handle handle, int a_op, int b_op, int m, int n, int k, const void* alpha,
                    const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                    const void* beta, void* c, int c_type, int ldc, int compute_type, int) {
  const State& state = *static_cast<State*>(handle);
  if (!state.workspace || state.math_mode != cublas::kNoReducedReduction) return kNotInitialized;
  const bool leading = lda >= (a_op == cublas::kPlain ? m : k) &&
                       ldb >= (b_op == cublas::kPlain ? k : n) && ldc >= m;
  if (!leading || a_type != cublas::kHalf || b_type != cublas::kHalf ||
      compute_type != cublas::kComputeFloat) {
    return kInvalidValue;
  }
  if (fail_after == 0) return kExecutionFailed;
  if (fail_after > 0) --fail_after;
  const Product product{a_op,
                        b_op,
                        m,
                        n,
                        k,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        static_cast<const uint16_t*>(a),
                        static_cast<const uint16_t*>(b),
                        c,
                        state.workspace,
                        lda,
                        ldb,
                        ldc,
                        c_type == cublas::kHalf};
  simt::submit(state.stream,
               {"cublasGemmEx",
                {1, 1, 1},
                32,
                0,
                [product] {
                  for (int j = static_cast<int>(simt::thread_index.x); j < product.n; j += 32) {
                    compute(product, j);
                  }
                }},
               &product, sizeof product);
  return cublas::kSuccess;
}

}  // extern "C"
