// Blocks copy parts of what a head of a layer has.
#include "copy_prefix.h"

#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kParts = 8;
constexpr int kKeyBlock = 16;  // positions that lie together (KvLayer)
constexpr int kWord = 8;       // numbers that are copied at once

SPECBOUND_DEVICE void copy_words(const uint16_t* from, uint16_t* to, size_t numbers) {
  const size_t stride = static_cast<size_t>(kParts) * kThreads;
  for (size_t i = blockIdx.x * kThreads + threadIdx.x; i < numbers / kWord; i += stride) {
    reinterpret_cast<Word4*>(to)[i] = reinterpret_cast<const Word4*>(from)[i];
  }
}

__global__ void __launch_bounds__(kThreads) copy_prefix_kernel(CopyPrefix p) {
  const size_t n = static_cast<size_t>(p.head_dim);
  const size_t first = blockIdx.z * p.next_layer + blockIdx.y * p.from.n_ctx * n;  // of the head
  const size_t key_blocks = (static_cast<size_t>(p.n) + kKeyBlock - 1) / kKeyBlock;
  copy_words(p.from.k + first, p.to.k + first, key_blocks * kKeyBlock * n);
  copy_words(p.from.v + first, p.to.v + first, p.n * n);
}

}  // namespace

void copy_prefix(const CopyPrefix& p, Stream stream) {
  SB_CHECK(aligned(p.from.k, 16) && aligned(p.from.v, 16));
  SB_CHECK(aligned(p.to.k, 16) && aligned(p.to.v, 16));
  SB_CHECK(p.from.n_ctx == p.to.n_ctx && p.n >= 1 && p.n <= p.from.n_ctx);
  SB_CHECK(p.n_layers >= 1 && p.n_kv_heads >= 1 && p.next_layer % kWord == 0);
  SB_CHECK(p.head_dim >= kWord && p.head_dim % kWord == 0);
  const Grid blocks{kParts, static_cast<unsigned>(p.n_kv_heads), static_cast<unsigned>(p.n_layers)};
  launch(copy_prefix_kernel, "copy_prefix", {blocks, kThreads}, stream, p);
}

}  // namespace specbound::kernels
