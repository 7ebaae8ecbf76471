// A block gathers a head.
#include "gather_kv.h"

#include "kv_rows.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;

template <class Kv>
SPECBOUND_DEVICE uint16_t bits_of_number(const KvRow<Kv>& row, int d) {
  uint32_t bits = row.number(d);
  if constexpr (Kv::kScaled) {
    const uint32_t scale = row.scale(d / kKvScaled);
    bits |= (d % 2 == 0 ? scale & 0xffu : scale >> 8) << 8;
  }
  return static_cast<uint16_t>(bits);
}

template <class Kv>
SPECBOUND_DEVICE void gather(const GatherKv& p) {
  const int head = static_cast<int>(blockIdx.x);
  const KvRow<Kv> key = key_at<Kv>(p.kv, p.head_dim, head, p.pos);
  const KvRow<Kv> value = value_at<Kv>(p.kv, p.head_dim, head, p.pos);
  const size_t first = static_cast<size_t>(head) * p.head_dim;
  for (int d = static_cast<int>(threadIdx.x); d < p.head_dim; d += kThreads) {
    p.k[first + d] = bits_of_number(key, d);
    p.v[first + d] = bits_of_number(value, d);
  }
}

__global__ void __launch_bounds__(kThreads) gather_kv_kernel(GatherKv p) {
  p.kv.int8 ? gather<KvI8>(p) : gather<KvF16>(p);
}

}  // namespace

void gather_kv(const GatherKv& p, Stream stream) {
  SB_CHECK(p.kv.k != nullptr && p.kv.v != nullptr && p.k != nullptr && p.v != nullptr);
  SB_CHECK(p.n_kv_heads >= 1 && p.head_dim >= 1 && p.pos >= 0 && p.pos < p.kv.n_ctx);
  launch(gather_kv_kernel, "gather_kv",
         {.blocks = {static_cast<unsigned>(p.n_kv_heads)}, .threads = kThreads}, stream, p);
}

}  // namespace specbound::kernels
