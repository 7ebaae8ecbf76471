// Blocks copy parts of what a head of a layer has.
#include "copy_prefix.h"

#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kParts = 8;

SPECBOUND_DEVICE void copy_words(const void* from, void* to, size_t begin, size_t bytes) {
  const size_t stride = static_cast<size_t>(kParts) * kThreads;
  const auto* source = reinterpret_cast<const Word4*>(static_cast<const uint8_t*>(from) + begin);
  auto* target = reinterpret_cast<Word4*>(static_cast<uint8_t*>(to) + begin);
  for (size_t i = blockIdx.x * kThreads + threadIdx.x; i < bytes / sizeof(Word4); i += stride) {
    target[i] = source[i];
  }
}

__global__ void __launch_bounds__(kThreads) copy_prefix_kernel(CopyPrefix p) {
  const size_t of_head = kv_bytes(p.from.int8, p.head_dim, p.from.n_ctx);
  const size_t begin = blockIdx.z * p.next_layer + blockIdx.y * of_head;
  const size_t bytes = kv_bytes(p.from.int8, p.head_dim, p.n);
  copy_words(p.from.k, p.to.k, begin, bytes);
  copy_words(p.from.v, p.to.v, begin, bytes);
}

}  // namespace

void copy_prefix(const CopyPrefix& p, Stream stream) {
  SB_CHECK(aligned(p.from.k, 16) && aligned(p.from.v, 16));
  SB_CHECK(aligned(p.to.k, 16) && aligned(p.to.v, 16));
  SB_CHECK(p.from.n_ctx == p.to.n_ctx && p.n >= 1 && p.n <= p.from.n_ctx);
  SB_CHECK(p.from.int8 == p.to.int8 && p.from.n_ctx % kKeyBlock == 0);
  SB_CHECK(p.n_layers >= 1 && p.n_kv_heads >= 1 && p.next_layer % sizeof(Word4) == 0);
  SB_CHECK(p.head_dim >= 8 && p.head_dim % 8 == 0);
  const Grid blocks{kParts, static_cast<unsigned>(p.n_kv_heads), static_cast<unsigned>(p.n_layers)};
  launch(copy_prefix_kernel, "copy_prefix", {blocks, kThreads}, stream, p);
}

}  // namespace specbound::kernels
