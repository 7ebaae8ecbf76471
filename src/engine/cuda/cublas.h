// Products of FP16 matrices by cuBLAS, which is opened at run time: for `--prefill cublas` and the
// training of heads, where other bits than ours will do. The same calls give the same bits on one
// GPU under one version: its workspace is fixed, and it has one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/cuda/device.h"
#include "kernels/stream.h"

namespace specbound {

// The few functions that are called, as cuBLAS's C headers declare them: it is opened at run time,
// so nothing of it is needed to build. Enumerations are ints, handles and streams pointers.
namespace cublas {

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

}  // namespace cublas

// "cuBLAS 13.0 (libcublas.so.13)"; empty: there is none that could be used.
std::string cublas_found();

// A row-major matrix on the device, FP16; a row begins `ld` values after the one before it.
struct HalfMatrix {
  const uint16_t* values;
  int ld;
  bool is_transposed = false;

  HalfMatrix transposed() const { return {values, ld, !is_transposed}; }
};

class Cublas {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // Throws Error(kUnsupported) where there is no cuBLAS, Error(kLimit), Error(kDevice). `files` are
  // what is looked for, in this order.
  explicit Cublas(Device& device, std::span<const char* const> files = kFiles);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  const std::string& name() const { return name_; }  // "cuBLAS 13.0"

  // c (m, n; ldc) = alpha a b + beta c, a (m, k), b (k, n) after being transposed; sums in FP32.
  // With beta 0 c is not read. In the order of the device's stream.
  void multiply(int m, int n, int k, float alpha, const HalfMatrix& a, const HalfMatrix& b,
                float beta, float* c, int ldc);
  // The same rounded to FP16, without what was in c.
  void multiply(int m, int n, int k, float alpha, const HalfMatrix& a, const HalfMatrix& b,
                uint16_t* c, int ldc);

 private:
  friend std::string cublas_found();
  static constexpr const char* kFiles[] = {
      "libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "libcublas.so.12"};

  void require(cublas::Status status, const char* what) const;
  void gemm(int m, int n, int k, float alpha, const HalfMatrix& a, const HalfMatrix& b, float beta,
            void* c, int c_type, int ldc);

  cublas::Functions functions_{};
  std::string name_;
  cublas::Handle handle_ = nullptr;
  DeviceMemory<std::byte> workspace_;
};

}  // namespace specbound
