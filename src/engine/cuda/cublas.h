// Products of FP16 matrices by cuBLAS, which is opened at run time: for `--prefill cublas` and the
// training of heads, where other bits than ours will do. The same calls give the same bits on one
// GPU under one version: its workspace is fixed, and it has one stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/cuda/cublas_api.h"
#include "engine/cuda/device.h"

namespace specbound {

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
