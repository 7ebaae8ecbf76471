// The row of a pass of one, normed and quantized by each block of the matmul that reads it, into
// its shared memory.
//
// A kernel apart costs a launch, and its one block holds up all others. Blocks that each do it read
// 8 bytes a k again, from L2 (a 7B's q, k and v: 384 times 32 KB, where its weights are 53 MB of
// memory), and take about 3,000 instructions, counted by hand, beside the 8,600 of Q8_0's unit of
// 4,096 k: time in which their weights arrive. No GPU has measured it. Of several rows each would
// take as much again, so they keep the kernel (rows.h).
#pragma once

#include "matmul_int8.cuh"
#include "norm_quantize.cuh"
#include "projections.h"

namespace specbound::kernels {

constexpr size_t normed_bytes(int n_in) {
  return static_cast<size_t>(n_in) + n_in / kQuantBlock * sizeof(float);
}
static_assert(2 * kSumBytes + normed_bytes(kWidestNormed) <= size_t{64} << 10);

struct StoreShared {
  int8_t* q;
  float* d;

  SPECBOUND_DEVICE void operator()(int block, int at, uint32_t word, float dx) const {
    *reinterpret_cast<uint32_t*>(q + block * kQuantBlock + at) = word;
    if (at == 0) d[block] = dx;
  }
};

// Behind the sums of kMatrices matrices, where the row as floats is meanwhile; by a block of
// kThreads. Waits for the kernels before this one.
template <int kThreads, int kMatrices>
SPECBOUND_DEVICE SharedRow norm_row(const Pass* pass, const NormedRow& x) {
  constexpr size_t kBehind = kMatrices * kSumBytes;
  constexpr int kStaged = kMatrices * 4096;
  static_assert((kStaged + 4) * sizeof(float) <= kBehind);
  auto* q = block_shared<int8_t>(kBehind);
  auto* d = block_shared<float>(kBehind + x.n_in);
  const float* h = x.h + static_cast<size_t>(pass->slot) * x.n_in;
  const NormWeights<kThreads> weights(x.weight, x.n_in);
  wait_for_previous();
  norm_and_quantize<kThreads, kStaged>(h, weights, x.n_in, x.eps, StoreShared{q, d});
  __syncthreads();
  return {x.n_in, q, d};
}

}  // namespace specbound::kernels
