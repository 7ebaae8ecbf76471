// The inner loop of our own product of matrices, compiled once for each instruction set. Nothing of
// the standard library: code that these files made of it would be the linker's to give to all.
#pragma once

namespace specbound {

inline constexpr int kMicroRows = 6;

// Both factors packed: sums (kMicroRows, 2 vectors) = a^T b, of a (k, kMicroRows) and b (k, 2
// vectors).
struct MicroKernel {
  int vector_bytes;
  void (*of_floats)(int k, const float* a, const float* b, float* sums);
  void (*of_doubles)(int k, const double* a, const double* b, double* sums);
};

// 12 sums stay in registers, of which there are 16 at least.
template <int kBytes, typename T>
static void micro_product(int k, const T* a, const T* b, T* sums) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / sizeof(T);
  Vector sum[kMicroRows][2] = {};
  for (int p = 0; p < k; ++p) {
    Vector left, right;
    __builtin_memcpy(&left, b, sizeof(left));
    __builtin_memcpy(&right, b + kLanes, sizeof(right));
    for (int i = 0; i < kMicroRows; ++i) {
      const Vector factor = a[i] - Vector{};
      sum[i][0] += factor * left;
      sum[i][1] += factor * right;
    }
    a += kMicroRows;
    b += 2 * kLanes;
  }
  __builtin_memcpy(sums, sum, sizeof(sum));
}

template <int kBytes>
constexpr MicroKernel micro_kernel() {
  return {kBytes, micro_product<kBytes, float>, micro_product<kBytes, double>};
}

extern const MicroKernel kMicroPortable;
#if defined(__x86_64__)
extern const MicroKernel kMicroAvx2, kMicroAvx512;
#endif

}  // namespace specbound
