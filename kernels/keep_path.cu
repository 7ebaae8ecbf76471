// A block moves what a head of a layer has. A thread has the same dimensions at every place, and
// goes from the root on, so that no row is written over before it has moved: no one waits.
#include "keep_path.h"

#include "kv_rows.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kInFlight = 4;  // rows

// Of `n` numbers, or scales, of a head's keys and as many of its values: key(place, i) and
// value(place, i) are where they are.
template <class Number, class Key, class Value>
SPECBOUND_DEVICE void keep(const KeepPath& p, int n, Key key, Value value) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) {
    for (int first = 1; first <= p.depth; first += kInFlight) {
      Number held_k[kInFlight], held_v[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const int d = first + j, place = p.root + static_cast<int>(p.path >> (4 * d % 64) & 15);
        held_k[j] = d <= p.depth ? key(place, i) : Number{0};
        held_v[j] = d <= p.depth ? value(place, i) : Number{0};
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const int d = first + j;
        if (d > p.depth) continue;
        key(p.root + d, i) = held_k[j];
        value(p.root + d, i) = held_v[j];
      }
    }
  }
}

template <class Kv>
SPECBOUND_DEVICE void keep_all(const KeepPath& p) {
  using Number = typename Kv::Number;
  KvLayer kv = p.kv;  // of this layer
  kv.k = static_cast<uint8_t*>(kv.k) + blockIdx.y * p.next_layer;
  kv.v = static_cast<uint8_t*>(kv.v) + blockIdx.y * p.next_layer;
  const int head = static_cast<int>(blockIdx.x);
  const auto key = [&](int place) { return key_at<Kv>(kv, p.head_dim, head, place); };
  const auto value = [&](int place) { return value_at<Kv>(kv, p.head_dim, head, place); };
  keep<Number>(
      p, p.head_dim, [&](int place, int d) -> Number& { return key(place).number(d); },
      [&](int place, int d) -> Number& { return value(place).number(d); });
  if constexpr (Kv::kScaled) {
    keep<uint16_t>(
        p, kv_scales(true, p.head_dim),
        [&](int place, int b) -> uint16_t& { return key(place).scale(b); },
        [&](int place, int b) -> uint16_t& { return value(place).scale(b); });
  }
}

__global__ void __launch_bounds__(kThreads) keep_path_kernel(KeepPath p) {
  p.kv.int8 ? keep_all<KvI8>(p) : keep_all<KvF16>(p);
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
