// The norm of a row by a block of 256 threads, with the CPU's bits (engine/cpu/kernels_impl.h).
#pragma once

#include "float_formula.cuh"
#include "launch.cuh"
#include "layouts.h"

namespace specbound::kernels {

inline constexpr int kRowThreads = 256;
inline constexpr int kStagedFloats = 8192;  // of a row in shared memory at once
inline constexpr size_t kNormBytes = (kStagedFloats + 4) * sizeof(float);

// The hidden rows of a pass that a launch for up to max_rows is about: how many, and where in H the
// first one is.
struct HiddenRows {
  int n, first;
};

SPECBOUND_DEVICE HiddenRows hidden_rows(const Pass* pass, int max_rows, bool last_row) {
  if (last_row) return {1, pass->slot + pass->n_rows - 1};
  return {pass->n_rows < max_rows ? pass->n_rows : max_rows, pass->slot};
}

// 1 / rms of x (n), 16-byte aligned, n a multiple of 4; every thread returns it. The sum of squares
// runs in 32 virtual lanes (k mod 32), which are the lanes of the first warp; the whole block, of
// kThreads, brings the row to where that warp reads it fast, kStaged floats of it at once.
template <int kThreads = kRowThreads, int kStaged = kStagedFloats>
SPECBOUND_DEVICE float inverse_rms(const float* x, int n, float eps) {
  float* staged = block_shared<float>();  // (min(n, kStaged))
  float* result = block_shared<float>(kStaged * sizeof(float));
  const int thread = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  for (int begin = 0; begin < n; begin += kStaged) {
    const int count = n - begin < kStaged ? n - begin : kStaged;
    if (begin > 0) __syncthreads();  // the warp has read what was there
    for (int k = 4 * thread; k < count; k += 4 * kThreads) {
      *reinterpret_cast<Word4*>(staged + k) = *reinterpret_cast<const Word4*>(x + begin + k);
    }
    __syncthreads();
    if (thread < kWarp) {
#pragma unroll 8
      for (int k = thread; k < count; k += kWarp) sum = fused(staged[k], staged[k], sum);
    }
  }
  if (thread < kWarp) {
    const float mean = sum_of_32(sum) / static_cast<float>(n);
    if (thread == 0) *result = 1.0f / square_root(mean + eps);
  }
  __syncthreads();
  return *result;
}

}  // namespace specbound::kernels
