// A block moves what a head of a layer has. A thread has the same dimensions at every place, and
// goes from the root on, so that no row is written over before it has moved: no one waits.
#include "keep_path.h"

#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kInFlight = 4;   // rows
constexpr int kKeyBlock = 16;  // positions that lie together (KvLayer)

__global__ void __launch_bounds__(kThreads) keep_path_kernel(KeepPath p) {
  const size_t n = static_cast<size_t>(p.head_dim);
  const size_t first = blockIdx.y * p.next_layer + blockIdx.x * p.kv.n_ctx * n;  // of the head
  uint16_t *k = p.kv.k + first, *v = p.kv.v + first;
  const auto key = [&](int place, size_t i) {
    return (static_cast<size_t>(place / kKeyBlock) * n + i) * kKeyBlock + place % kKeyBlock;
  };
  for (size_t i = threadIdx.x; i < n; i += kThreads) {
    for (int first = 1; first <= p.depth; first += kInFlight) {
      uint16_t held_k[kInFlight], held_v[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const int d = first + j, place = p.root + static_cast<int>(p.path >> (4 * d % 64) & 15);
        held_k[j] = d <= p.depth ? k[key(place, i)] : 0;
        held_v[j] = d <= p.depth ? v[place * n + i] : 0;
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const int d = first + j;
        if (d > p.depth) continue;
        k[key(p.root + d, i)] = held_k[j];
        v[(p.root + d) * n + i] = held_v[j];
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads) keep_rows_kernel(KeepRows p) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= p.dim) return;
  for (int d = 1; d <= p.depth; ++d) {
    const size_t from = p.path >> (4 * d) & 15;
    p.rows[static_cast<size_t>(d) * p.dim + i] = p.rows[from * p.dim + i];
  }
}

}  // namespace

void keep_path(const KeepPath& p, Stream stream) {
  SB_CHECK(p.kv.k != nullptr && p.kv.v != nullptr);
  SB_CHECK(p.n_layers >= 1 && p.n_kv_heads >= 1 && p.head_dim >= 1);
  SB_CHECK(p.depth >= 1 && p.depth < kMaxDecodeRows);
  SB_CHECK(p.root >= 0 && p.root + static_cast<int>(p.path >> (4 * p.depth) & 15) < p.kv.n_ctx);
  launch(keep_path_kernel, "keep_path",
         {{static_cast<unsigned>(p.n_kv_heads), static_cast<unsigned>(p.n_layers)}, kThreads},
         stream, p);
}

void keep_rows(const KeepRows& p, Stream stream) {
  SB_CHECK(aligned(p.rows, 4) && p.dim >= 1 && p.depth >= 1 && p.depth < kMaxDecodeRows);
  launch(keep_rows_kernel, "keep_rows",
         {{static_cast<unsigned>((p.dim + kThreads - 1) / kThreads)}, kThreads}, stream, p);
}

}  // namespace specbound::kernels
