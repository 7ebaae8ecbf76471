// A row normed and quantized at once by a block, with the CPU's bits (engine/cpu: rmsnorm and
// quantize), wherever the row goes: memory, or the block's own matmul.
#pragma once

#include "quantize.cuh"
#include "row_norm.cuh"

namespace specbound::kernels {

struct Four {
  float x[4];
};

SPECBOUND_DEVICE Four load_four(const float* p) {
  const Word4 v = *reinterpret_cast<const Word4*>(p);
  return {{float_of(v.x), float_of(v.y), float_of(v.z), float_of(v.w)}};
}

SPECBOUND_DEVICE Four load_four_if(bool condition, const float* p) {
  return condition ? load_four(p) : Four{};
}

// A warp quantizes 128 values: eight lanes that lie together hold a block, four of it each, from
// element k of the row (n) on. Lanes past the row's end only take part in the shuffles. `store`:
// (block, place in it, the four, the block's scale).
template <class Store>
SPECBOUND_DEVICE void quantize_fours(const Four& four, int k, int n, const Store& store) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t magnitude = magnitude_bits(four.x[i]);
    largest = largest > magnitude ? largest : magnitude;
  }
#pragma unroll
  for (int step = 4; step >= 1; step /= 2) {
    const uint32_t other = shuffle_xor(largest, step);
    largest = largest > other ? largest : other;
  }
  if (k >= n) return;
  const QuantScale scale = quant_scale(largest);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word |= (static_cast<uint32_t>(quantized(four.x[i], scale)) & 0xffu) << (8 * i);
  }
  store(k / kQuantBlock, k % kQuantBlock, word, scale.dx);
}

// Of the weights of a norm (dim, 16-byte aligned) what a thread has before the row is there: as
// many fours as its registers hold where kernels overlap, so that there is time to bring them. The
// rest is on its way.
template <int kThreads>
struct NormWeights {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kAhead = 2;
#else
  static constexpr int kAhead = 4;
#endif
  const float* all;
  Four ahead[kAhead];

  SPECBOUND_DEVICE NormWeights(const float* weight, int dim) : all(weight) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int k = 4 * (i * kThreads + thread);
      ahead[i] = load_four_if(k < dim, weight + k);
    }
    const int rest = dim - 4 * kAhead * kThreads;
    if (thread == 0 && rest > 0) prefetch(weight + (dim - rest), 4 * rest);
  }
};

// x (dim, a multiple of 32), 16-byte aligned, through `store` by a block of kThreads, which has
// kStaged floats and four more of shared memory for it; what is stored is not awaited.
template <int kThreads, int kStaged, class Store>
SPECBOUND_DEVICE void norm_and_quantize(const float* x, const NormWeights<kThreads>& weights,
                                        int dim, float eps, const Store& store) {
  constexpr int kAhead = NormWeights<kThreads>::kAhead;
  const int thread = static_cast<int>(threadIdx.x);
  const float scale = inverse_rms<kThreads, kStaged>(x, dim, eps);
  if (dim <= kStaged) x = block_shared<float>();  // where inverse_rms() has left it
  // The warp's 128 values of which this thread's begin at k.
  const auto finish = [&](int k, const Four& weight) {
    Four y = load_four_if(k < dim, x + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) y.x[i] = (y.x[i] * scale) * weight.x[i];
    quantize_fours(y, k, dim, store);
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int k = 4 * (i * kThreads + thread);
    if (k - 4 * lane_index() < dim) finish(k, weights.ahead[i]);
  }
  for (int k = 4 * (kAhead * kThreads + thread); k - 4 * lane_index() < dim; k += 4 * kThreads) {
    finish(k, load_four_if(k < dim, weights.all + k));
  }
}

}  // namespace specbound::kernels
