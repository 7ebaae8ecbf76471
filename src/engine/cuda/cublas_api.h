// The few functions of cuBLAS that are called, as its C headers declare them: it is opened at run
// time, so nothing of it is needed to build. Enumerations are ints, handles and streams pointers.
#pragma once

#include <cstddef>

#include "kernels/stream.h"

namespace specbound::cublas {

using Handle = void*;
using Status = int;

inline constexpr Status kSuccess = 0;
inline constexpr int kPlain = 0, kTransposed = 1;  // cublasOperation_t
inline constexpr int kFloat = 0, kHalf = 2;        // cudaDataType_t
inline constexpr int kComputeFloat = 68;           // cublasComputeType_t
inline constexpr int kAnyAlgorithm = -1;           // cublasGemmAlgo_t
inline constexpr int kNoReducedReduction = 16;     // cublasMath_t
inline constexpr int kMajor = 0, kMinor = 1;       // libraryPropertyType

struct Functions {
  Status (*get_property)(int property, int* value);
  const char* (*status_name)(Status);
  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  Status (*set_stream)(Handle, kernels::Stream);
  Status (*set_workspace)(Handle, void* memory, size_t bytes);
  Status (*set_math_mode)(Handle, int mode);
  // Column-major: c (m, n) = alpha op(a) op(b) + beta c.
  Status (*gemm)(Handle, int a_op, int b_op, int m, int n, int k, const void* alpha, const void* a,
                 int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c,
                 int c_type, int ldc, int compute_type, int algorithm);
};

}  // namespace specbound::cublas
