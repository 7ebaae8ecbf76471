// Attention of a decode pass whose rows are of several texts: a block for each chunk, K/V head and
// row. Few others need its keys and values, so they are not staged: a thread reads the key of its
// position, then its dimensions of all values, as they lie in the cache.
#include "attention.h"
#include "finish_head.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kPositions = kAttentionChunk;
constexpr int kThreads = kPositions;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTurn = 8;      // queries of the K/V head that a key is read for at once
constexpr int kInFlight = 8;  // numbers of a key, or values, that a thread has asked for

// What a block works on, and its shared memory.
struct RowChunk {
  int row, kv_head, index;
  int begin;            // its first position
  int first_key, keys;  // of the chunk, that the row sees: first_key .. keys - 1
  float* q;             // (kTurn, head_dim)
  float* weights;       // (kTurn, 64): first scores
  // Where its text has a tree: the root's position, from `begin` on, and the row's path.
  int root;
  uint64_t path;
};

// K and V are those of the row's text.
SPECBOUND_DEVICE Heads heads_of(const Attend& p, int row) {
  Heads heads = p.heads;
  const size_t sequence = static_cast<size_t>(p.sequences->sequence[row]);
  // In halves, of INT8 too: in bytes ptxas takes 72 registers of FP16 on sm_90, not 64.
  heads.kv.k = static_cast<uint16_t*>(heads.kv.k) + sequence * p.next_sequence;
  heads.kv.v = static_cast<uint16_t*>(heads.kv.v) + sequence * p.next_sequence;
  return heads;
}

// Where the row finds position `at`, both from `begin` on: its ancestors may lie in the next chunk.
// Positions that it does not see are at themselves.
template <bool kTree>
SPECBOUND_DEVICE int place_of(const RowChunk& c, int at) {
  if constexpr (!kTree) return at;
  const bool moved = at >= c.root && at < c.keys;
  return moved ? c.root + slot_at(c.path, at - c.root) : at;
}

// dots[i] + q_i . k of `n` queries (head_dim) and numbers d..end - 1, by ascending d, less their
// scale; d a multiple of 8.
template <class Kv>
SPECBOUND_DEVICE void add_products(const KvRow<Kv>& k, int d, int end, const float* q, int head_dim,
                                   int n, float (&dots)[kTurn]) {
  for (; d < end; d += kInFlight) {
    float key[kInFlight];
#pragma unroll
    for (int e = 0; e < kInFlight; ++e) key[e] = Kv::value(k.number(d + e));
#pragma unroll
    for (int i = 0; i < kTurn; ++i) {
      if (i >= n) continue;
#pragma unroll
      for (int e = 0; e < kInFlight; e += 4) {
        const Float4 x = *reinterpret_cast<const Float4*>(q + i * head_dim + d + e);
        dots[i] = fused(key[e], x.x, dots[i]);
        dots[i] = fused(key[e + 1], x.y, dots[i]);
        dots[i] = fused(key[e + 2], x.z, dots[i]);
        dots[i] = fused(key[e + 3], x.w, dots[i]);
      }
    }
  }
}

// Scores of `n` queries with this thread's position; -inf where they do not see it, and what is
// there may be anything.
template <bool kTree, class Kv>
SPECBOUND_DEVICE void score_keys(const Heads& heads, const RowChunk& c, int n) {
  const int position = static_cast<int>(threadIdx.x), head_dim = heads.head_dim;
  const bool visible = c.first_key <= position && position < c.keys;
  const KvRow<Kv> k =
      key_at<Kv>(heads.kv, head_dim, c.kv_head, c.begin + place_of<kTree>(c, position));
  float dots[kTurn];
#pragma unroll
  for (int i = 0; i < kTurn; ++i) dots[i] = 0.0f;
  if constexpr (Kv::kScaled) {
#pragma unroll 1
    for (int d = 0; visible && d < head_dim; d += kKvScaled) {
      float of_scale[kTurn];
#pragma unroll
      for (int i = 0; i < kTurn; ++i) of_scale[i] = 0.0f;
      const int end = d + kKvScaled < head_dim ? d + kKvScaled : head_dim;
      add_products(k, d, end, c.q, head_dim, n, of_scale);
      const float scale = half_float(k.scale(d / kKvScaled));
#pragma unroll
      for (int i = 0; i < kTurn; ++i) dots[i] = fused(of_scale[i], scale, dots[i]);
    }
  } else {
    add_products(k, 0, visible ? head_dim : 0, c.q, head_dim, n, dots);
  }
#pragma unroll
  for (int i = 0; i < kTurn; ++i) {
    if (i >= n) continue;
    float score = dots[i] * heads.score_scale;
    if (heads.softcap > 0) score = softcap(score, heads.softcap);
    c.weights[i * kPositions + position] = visible ? score : -infinity();
  }
}

// A query's scores (64) become weights, by a warp; the largest score and the weights' sum go to
// `state`.
SPECBOUND_DEVICE void weigh(float* scores, float* state) {
  const int lane = lane_index();
  const float score[2] = {scores[lane], scores[lane + kWarp]};
  float largest = -infinity();
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    if (score[e] > largest) largest = score[e];  // NaN is passed over
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    const float other = shuffle_xor(largest, step);
    if (other > largest) largest = other;
  }
  // The sum runs in 16 virtual lanes (position mod 16) by ascending blocks of 16; then the tree.
  float total = 0.0f;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float weight = exp_formula(score[e] - largest);
    scores[lane + kWarp * e] = weight;
    total = total + shuffle(weight, lane % 16);
    total = total + shuffle(weight, lane % 16 + 16);
  }
  total = sum_of_16(total);
  if (lane == 0) {
    state[0] = largest;
    state[1] = total;
  }
}

// Weighted sums of the values, by ascending keys, of `n` queries from `first_head` on.
template <bool kTree, class Kv>
SPECBOUND_DEVICE void add_values(const Attend& p, const Heads& heads, const RowChunk& c,
                                 int first_head, int n) {
  const int head_dim = heads.head_dim;
  const auto* values = block_at<Kv>(heads.kv.v, heads.kv.n_ctx, head_dim, c.kv_head, c.begin);
  float* part = p.part_outputs +
                (static_cast<size_t>(c.index) * kMaxDecodeRows + c.row) * q_dim_of(heads) +
                first_head * head_dim;
  for (int d = static_cast<int>(threadIdx.x); d < head_dim; d += kThreads) {
    float out[kTurn];
#pragma unroll
    for (int i = 0; i < kTurn; ++i) out[i] = 0.0f;
    for (int key = c.first_key; key < c.keys; key += kInFlight) {
      float v[kInFlight];
      [[maybe_unused]] float scale[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const bool there = key + j < c.keys;
        const int place = place_of<kTree>(c, key + j);
        const int blocks = Kv::kScaled ? place / kKeyBlock : 0;
        const int before = place * head_dim + blocks * scale_numbers<Kv>(head_dim);
        v[j] = there ? Kv::value(values[before + d]) : 0.0f;
        if constexpr (Kv::kScaled) {
          const KvRow<Kv> value = value_at<Kv>(heads.kv, head_dim, c.kv_head, c.begin + place);
          scale[j] = there ? half_float(value.scale(d / kKvScaled)) : 0.0f;
        }
      }
#pragma unroll
      for (int i = 0; i < kTurn; ++i) {
        if (i >= n) continue;
#pragma unroll
        for (int j = 0; j < kInFlight; ++j) {
          if (key + j >= c.keys) continue;
          float weight = c.weights[i * kPositions + key + j];
          if constexpr (Kv::kScaled) weight = weight * scale[j];
          out[i] = fused(v[j], weight, out[i]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kTurn; ++i) {
      if (i < n) part[i * head_dim + d] = out[i];
    }
  }
}

// Where texts have several rows, before one sees another: key and value of a row, by a warp for
// each K/V head.
template <class Kv>
__global__ void __launch_bounds__(kWarp) store_side_by_side_kernel(Attend p) {
  const int kv_head = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  if (row >= p.pass->n_rows) return;
  const int pos = p.sequences->pos[row], depth = p.tree->depth[row];
  const int place = pos - depth + slot_at(p.tree->path[row], depth);
  const Heads heads = heads_of(p, row);
  wait_for_previous();
  store_key_value<Kv>(heads, row, kv_head, pos, place, block_shared<float>());
}

// Twelve blocks a multiprocessor, of INT8 ten: with none to plan for, ptxas unrolls into
// registers it lacks.
template <bool kTree, class Kv>
__global__ void __launch_bounds__(kThreads, Kv::kScaled ? 10 : 12)
    attend_side_by_side_kernel(Attend p) {
  RowChunk c;
  c.index = static_cast<int>(blockIdx.x);
  c.kv_head = static_cast<int>(blockIdx.y);
  c.row = static_cast<int>(blockIdx.z);
  c.begin = c.index * kPositions;
  if (c.row >= p.pass->n_rows) return;
  const int pos = p.sequences->pos[c.row], first = first_key(p.heads, pos) - c.begin;
  if (c.begin > pos || first >= kPositions) return;
  const Heads heads = heads_of(p, c.row);
  c.first_key = first > 0 ? first : 0;
  c.keys = pos + 1 - c.begin < kPositions ? pos + 1 - c.begin : kPositions;
  c.q = block_shared<float>();
  c.weights = c.q + kTurn * heads.head_dim;

  // The row's key and value go to the cache, whence they are read like all others; where rows see
  // each other's, they are there (store_side_by_side_kernel).
  if constexpr (kTree) {
    c.root = pos - p.tree->depth[c.row] - c.begin;
    c.path = p.tree->path[c.row];
  } else if (pos - c.begin < kPositions) {
    if (warp_index() == 0) store_key_value<Kv>(heads, c.row, c.kv_head, pos, pos, c.q);
    __syncthreads();
  }
  const int group = heads.n_heads / heads.n_kv_heads;
  const size_t n_chunks = heads.kv.n_ctx / kPositions;
  for (int of_group = 0; of_group < group; of_group += kTurn) {
    const int head = c.kv_head * group + of_group;
    const int n = group - of_group < kTurn ? group - of_group : kTurn;
    for (int i = warp_index(); i < n; i += kWarps) {
      finish_query(heads, c.row, head + i, pos, c.q + i * heads.head_dim);
    }
    __syncthreads();  // queries are finished, the last ones' weights have been read
    score_keys<kTree, Kv>(heads, c, n);
    __syncthreads();  // scores are there
    for (int i = warp_index(); i < n; i += kWarps) {
      const size_t state = (static_cast<size_t>(c.row) * heads.n_heads + head + i) * n_chunks;
      weigh(c.weights + i * kPositions, p.part_states + 2 * (state + c.index));
    }
    __syncthreads();  // weights are there
    // In few chunks; the others need not ask where each value is.
    if (kTree && c.root < c.keys) {
      add_values<true, Kv>(p, heads, c, head, n);
    } else {
      add_values<false, Kv>(p, heads, c, head, n);
    }
  }
}

template <class Kv>
void launch_side_by_side(const Attend& p, int max_rows, Stream stream) {
  const auto n_kv_heads = static_cast<unsigned>(p.heads.n_kv_heads);
  const auto rows = static_cast<unsigned>(max_rows);
  auto kernel = attend_side_by_side_kernel<false, Kv>;
  if (p.tree != nullptr) {
    launch(store_side_by_side_kernel<Kv>, "store_side_by_side",
           {{n_kv_heads, rows}, kWarp, p.heads.head_dim * sizeof(float), true}, stream, p);
    kernel = attend_side_by_side_kernel<true, Kv>;
  }
  const Grid blocks{static_cast<unsigned>(p.context / kPositions), n_kv_heads, rows};
  const size_t shared = kTurn * (p.heads.head_dim + kPositions) * sizeof(float);
  launch(kernel, "attend_side_by_side", {blocks, kThreads, shared}, stream, p);
}

}  // namespace

void attend_side_by_side(const Attend& p, int max_rows, Stream stream) {
  check_attend(p);
  SB_CHECK(p.sequences != nullptr && p.next_sequence % 8 == 0);
  SB_CHECK(max_rows >= 1 && max_rows <= kMaxDecodeRows);
  p.heads.kv.int8 ? launch_side_by_side<KvI8>(p, max_rows, stream)
                  : launch_side_by_side<KvF16>(p, max_rows, stream);
}

}  // namespace specbound::kernels
