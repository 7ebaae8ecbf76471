// A block gathers a head.
#include "gather_kv.h"

#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kKeyBlock = 16;  // positions that lie together (KvLayer)

__global__ void __launch_bounds__(kThreads) gather_kv_kernel(GatherKv p) {
  const size_t head = blockIdx.x, n = static_cast<size_t>(p.head_dim);
  const size_t first = head * p.kv.n_ctx * n;  // of the head, in K and in V
  const size_t key_block = first + static_cast<size_t>(p.pos / kKeyBlock) * n * kKeyBlock;
  for (size_t i = threadIdx.x; i < n; i += kThreads) {
    p.k[head * n + i] = p.kv.k[key_block + i * kKeyBlock + p.pos % kKeyBlock];
    p.v[head * n + i] = p.kv.v[first + p.pos * n + i];
  }
}

}  // namespace

void gather_kv(const GatherKv& p, Stream stream) {
  SB_CHECK(p.kv.k != nullptr && p.kv.v != nullptr && p.k != nullptr && p.v != nullptr);
  SB_CHECK(p.n_kv_heads >= 1 && p.head_dim >= 1 && p.pos >= 0 && p.pos < p.kv.n_ctx);
  launch(gather_kv_kernel, "gather_kv",
         {.blocks = {static_cast<unsigned>(p.n_kv_heads)}, .threads = kThreads}, stream, p);
}

}  // namespace specbound::kernels
