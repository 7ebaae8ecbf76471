// Attention of a decode pass: a block for each K/V head and chunk, whose keys and values serve all
// queries at once.
#include "attention.h"

#include "finish_head.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kSlots = 4;               // queries that a warp serves at once
constexpr int kTurn = kWarps * kSlots;  // and a block
constexpr int kMaxStagedQueries = 64;   // for which keys and values are staged once
constexpr int kInFlight = 8;            // 16-byte loads of a thread
constexpr int kPositions = kAttentionChunk;
constexpr int kTail = 16;                 // places of a round in the next chunk
constexpr size_t kMostShared = 64 << 10;  // bytes that a block of sm_75 has

struct AttendChunks {
  Attend p;
  int staged_queries;  // a multiple of kTurn
};

// What a block works on, and its shared memory.
struct Chunk {
  int kv_head, index, begin;  // begin: its first position
  int pos, n_queries;  // of the pass; query i is row i / group, head i % group of the K/V head
  int staged_keys;     // places in use, rounded up to whole key blocks
  uint32_t* staged;    // (head_dim, 32 pairs of places) of K, then (64, head_dim/2) of V
  float* q;            // (kTurn, head_dim), each slot one warp's
  float* weights;      // (staged_queries, 64), each row one warp's
  // Of a tree. Keys lie at their own places up to `bent`, from there on where paths say: in this
  // chunk or among the first `tail` places of the next, which are staged too, behind the chunk: K
  // as (head_dim, kTail), V as (kTail, head_dim/2).
  const RowTree* tree;
  int root, bent, tail;  // root: its position. bent: 64 in chunks before the root's
};

// Of keys, or values.
constexpr size_t staged_bytes(int head_dim, bool tree) {
  return static_cast<size_t>(head_dim) * (kPositions + (tree ? kTail : 0)) * sizeof(uint16_t);
}

SPECBOUND_DEVICE int at_most(int n, int most) {
  return n < most ? n : most;
}

// Keys begin..end - 1 of a chunk; none where end is 0.
struct Keys {
  int begin, end;
};

// Kernels without a tree know at compile time that rows follow each other.
template <bool kTree>
SPECBOUND_DEVICE int position_of(const Chunk& c, int row) {
  return kTree ? c.root + c.tree->depth[row] : c.pos + row;
}

// Those of the chunk that query `i` sees; none for queries past the last. Kernels without a window
// know at compile time that begin is 0.
template <bool kWindowed, bool kTree>
SPECBOUND_DEVICE Keys visible_keys(const Heads& heads, const Chunk& c, int i) {
  if (i >= c.n_queries) return {0, 0};
  const int pos = position_of<kTree>(c, i / (heads.n_heads / heads.n_kv_heads));
  const int n = pos + 1 - c.begin, end = n < 0 ? 0 : at_most(n, kPositions);
  const int first = kWindowed ? first_key(heads, pos) - c.begin : 0;
  return first >= kPositions ? Keys{0, 0} : Keys{first < 0 ? 0 : first, end};
}

// K of the chunk, from (4, head_dim, 16) to (head_dim, 64): a warp then reads all positions of a
// dimension side by side. Key blocks that nobody sees become zero.
SPECBOUND_DEVICE void stage_keys(const Heads& heads, const Chunk& c) {
  const int n = heads.head_dim;
  const auto* from = reinterpret_cast<const Word4*>(
      heads.kv.k + (static_cast<size_t>(c.kv_head) * heads.kv.n_ctx + c.begin) * n);
  auto* to = reinterpret_cast<Word4*>(c.staged);
  for (int first = static_cast<int>(threadIdx.x); first < 8 * n; first += kInFlight * kThreads) {
    Word4 held[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kThreads, d = at / 8, block = at / 2 % 4;
      const bool used = at < 8 * n && 16 * block < c.staged_keys;
      held[i] = used ? from[(block * n + d) * 2 + at % 2] : Word4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kThreads;
      if (at < 8 * n) to[at] = held[i];
    }
  }
}

SPECBOUND_DEVICE void stage_values(const Heads& heads, const Chunk& c) {
  const int n = heads.head_dim, words = c.staged_keys * n / 8;
  const auto* from = reinterpret_cast<const Word4*>(
      heads.kv.v + (static_cast<size_t>(c.kv_head) * heads.kv.n_ctx + c.begin) * n);
  auto* to = reinterpret_cast<Word4*>(c.staged);
  for (int first = static_cast<int>(threadIdx.x); first < words; first += kInFlight * kThreads) {
    Word4 held[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kThreads;
      held[i] = at < words ? from[at] : Word4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kThreads;
      if (at < words) to[at] = held[i];
    }
  }
}

// Where in the chunk, or behind it, a row with this path finds `key` >= c.bent, which it sees.
SPECBOUND_DEVICE int place_of(const Chunk& c, uint64_t path, int key) {
  const int root = c.root - c.begin;
  return root + static_cast<int>(path >> (4 * (key - root)) & 15);
}

// K of the tail. The block of the next chunk may be storing those of the pass's own rows just now:
// they are finished here once more.
SPECBOUND_DEVICE void stage_tail_keys(const Heads& heads, const Chunk& c) {
  const int n = heads.head_dim;
  auto* to = reinterpret_cast<uint16_t*>(c.staged) + kPositions * n;
  float* y = c.q + warp_index() * kSlots * n;
  for (int i = warp_index(); i < c.tail; i += kWarps) {
    const int place = c.begin + kPositions + i, row = place - c.pos;
    if (row >= 0) {
      const float* k = key_of(heads, row, c.kv_head);
      finish_key(heads, k, c.kv_head, position_of<true>(c, row), y);
      for (int d = lane_index(); d < n; d += kWarp) to[kTail * d + i] = half_bits(y[d]);
      __syncwarp();  // y may be written
    } else {
      const uint16_t* stored = key_at(heads, c.kv_head, place);
      for (int d = lane_index(); d < n; d += kWarp) to[kTail * d + i] = stored[16 * d];
    }
  }
}

SPECBOUND_DEVICE void stage_tail_values(const Heads& heads, const Chunk& c) {
  const int n = heads.head_dim;
  auto* to = reinterpret_cast<uint16_t*>(c.staged) + kPositions * n;
  for (int i = warp_index(); i < c.tail; i += kWarps) {
    const int place = c.begin + kPositions + i, row = place - c.pos;
    uint16_t* value = to + i * n;
    if (row >= 0) {
      const float* v = key_of(heads, row, c.kv_head) + kv_dim_of(heads);
      for (int d = lane_index(); d < n; d += kWarp) {
        value[d] = finished_value(heads, v, c.kv_head, d);
      }
    } else {
      const uint16_t* stored = value_at(heads, c.kv_head, place);
      for (int d = lane_index(); d < n; d += kWarp) value[d] = stored[d];
    }
  }
}

SPECBOUND_DEVICE float low_half(uint32_t word) {
  return half_float(static_cast<uint16_t>(word & 0xffffu));
}
SPECBOUND_DEVICE float high_half(uint32_t word) {
  return half_float(static_cast<uint16_t>(word >> 16));
}

// The weights of a query's keys from the dot products of positions 2 lane and 2 lane + 1; its
// largest score and sum of weights go to `state`. Keys that it does not see are skipped: what they
// hold may be anything.
SPECBOUND_DEVICE void softmax_chunk(const Heads& heads, const float (&dots)[2], const Keys& keys,
                                    float* weights, float* state) {
  const int lane = lane_index();
  float score[2], largest = -infinity();
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    score[e] = dots[e] * heads.score_scale;
    if (heads.softcap > 0) score[e] = softcap(score[e], heads.softcap);
    const int key = 2 * lane + e;
    if (key < keys.begin || key >= keys.end) score[e] = -infinity();
    if (score[e] > largest) largest = score[e];  // NaN is passed over
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    const float other = shuffle_xor(largest, step);
    if (other > largest) largest = other;
  }
  // The sum runs in 16 virtual lanes (position mod 16) by ascending blocks of 16, which are 8 lanes
  // here; then the tree. All groups of 8 lanes do the same.
  float total[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float weight = exp_formula(score[e] - largest);
    weights[2 * lane + e] = weight;
    total[e] = 0.0f;
#pragma unroll
    for (int block = 0; block < kPositions / 16; ++block) {
      total[e] = total[e] + shuffle(weight, 8 * block + lane % 8);
    }
#pragma unroll
    for (int step = 4; step >= 1; step /= 2) total[e] = total[e] + shuffle_xor(total[e], step);
  }
  if (lane == 0) {
    state[0] = largest;
    state[1] = total[0] + total[1];
  }
}

// The dot products of places 2 lane and 2 lane + 1 become those of positions, for a row with this
// path and the query q (head_dim).
SPECBOUND_DEVICE void follow_path(const Chunk& c, const Keys& keys, uint64_t path, const float* q,
                                  int head_dim, float (&dots)[2]) {
  const int lane = lane_index();
  float behind = 0.0f;  // the dot product of place 64 + lane
  if (lane < c.tail) {
    const uint16_t* k = reinterpret_cast<uint16_t*>(c.staged) + kPositions * head_dim + lane;
    for (int d = 0; d < head_dim; ++d) behind = fused(half_float(k[kTail * d]), q[d], behind);
  }
  const float even = dots[0], odd = dots[1];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int key = 2 * lane + e;
    const bool moved = key >= c.bent && key < keys.end;
    const int place = moved ? place_of(c, path, key) : key;
    const float found[3] = {shuffle(even, place / 2), shuffle(odd, place / 2),
                            shuffle(behind, place)};
    dots[e] = place >= kPositions ? found[2] : place % 2 == 0 ? found[0] : found[1];
  }
}

// Finished queries, scores and weights of the turn's queries first..first + kTurn - 1; row 0 of
// `weights` is `first`'s. A lane has two positions.
template <bool kWindowed, bool kTree>
SPECBOUND_DEVICE void score_turn(const AttendChunks& a, const Chunk& c, int first, float* weights) {
  const Heads& heads = a.p.heads;
  const int n = heads.head_dim, group = heads.n_heads / heads.n_kv_heads, lane = lane_index();
  Keys keys[kSlots];
  float dots[kSlots][2];
  float* q = c.q + warp_index() * kSlots * n;
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const int query = first + i * kWarps + warp_index();
    keys[i] = visible_keys<kWindowed, kTree>(heads, c, query);
    dots[i][0] = dots[i][1] = 0.0f;
    if (keys[i].end == 0) continue;
    const int row = query / group, head = c.kv_head * group + query % group;
    finish_query(heads, row, head, position_of<kTree>(c, row), q + i * n);
  }
  for (int d = 0; d < n; d += 4) {
    float k[4][2];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t pair = c.staged[(d + e) * (kPositions / 2) + lane];
      k[e][0] = low_half(pair);
      k[e][1] = high_half(pair);
    }
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (keys[i].end == 0) continue;
      const Float4 four = *reinterpret_cast<const Float4*>(q + i * n + d);
      const float x[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        dots[i][0] = fused(k[e][0], x[e], dots[i][0]);
        dots[i][1] = fused(k[e][1], x[e], dots[i][1]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    if (keys[i].end == 0) continue;
    const int slot = i * kWarps + warp_index(), query = first + slot;
    const int row = query / group, head = c.kv_head * group + query % group;
    const size_t state =
        (static_cast<size_t>(row) * heads.n_heads + head) * (heads.kv.n_ctx / kPositions) + c.index;
    if (kTree && c.bent < kPositions) {
      follow_path(c, keys[i], c.tree->path[row], q + i * n, n, dots[i]);
    }
    softmax_chunk(heads, dots[i], keys[i], weights + slot * kPositions,
                  a.p.part_states + 2 * state);
  }
  __syncwarp();  // weights are there; q may be written
}

// Weighted sums of the values, by ascending keys, of the turn's queries in the dimensions from
// 2 * column on: 2 P of them a lane, pairs 32 apart.
template <int P, bool kWindowed, bool kTree>
SPECBOUND_DEVICE void add_values(const AttendChunks& a, const Chunk& c, int first, int column,
                                 const float* weights) {
  const Heads& heads = a.p.heads;
  const int pairs = heads.head_dim / 2, group = heads.n_heads / heads.n_kv_heads;
  Keys keys[kSlots];
  int least = kWindowed ? kPositions : 0, most = 0;
  float out[kSlots][2 * P];
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    keys[i] = visible_keys<kWindowed, kTree>(heads, c, first + i * kWarps + warp_index());
    if (kWindowed && keys[i].end > 0) least = at_most(keys[i].begin, least);
    most = keys[i].end > most ? keys[i].end : most;
#pragma unroll
    for (int e = 0; e < 2 * P; ++e) out[i][e] = 0.0f;
  }
  const int mine = column + lane_index();
  const int straight = kTree ? at_most(c.bent / 4 * 4, most) : most;
  for (int key = least / 4 * 4; key < straight; key += 4) {
    float v[4][2 * P];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < P; ++e) {
        const int at = mine + kWarp * e;
        const uint32_t pair = at < pairs ? c.staged[(key + j) * pairs + at] : 0;
        v[j][2 * e] = low_half(pair);
        v[j][2 * e + 1] = high_half(pair);
      }
    }
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (key >= keys[i].end) continue;
      const float* row = weights + (i * kWarps + warp_index()) * kPositions + key;
      const Float4 four = *reinterpret_cast<const Float4*>(row);
      const float weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (key + j >= keys[i].end) continue;
        if (kWindowed && key + j < keys[i].begin) continue;
#pragma unroll
        for (int e = 0; e < 2 * P; ++e) out[i][e] = fused(v[j][e], weight[j], out[i][e]);
      }
    }
  }
  for (int key = straight; key < most; ++key) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (key >= keys[i].end || (kWindowed && key < keys[i].begin)) continue;
      const int slot = i * kWarps + warp_index(), row = (first + slot) / group;
      const int place = key < c.bent ? key : place_of(c, c.tree->path[row], key);
      const float weight = weights[slot * kPositions + key];
#pragma unroll
      for (int e = 0; e < P; ++e) {
        const int at = mine + kWarp * e;
        const uint32_t pair = at < pairs ? c.staged[place * pairs + at] : 0;
        out[i][2 * e] = fused(low_half(pair), weight, out[i][2 * e]);
        out[i][2 * e + 1] = fused(high_half(pair), weight, out[i][2 * e + 1]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    if (keys[i].end == 0) continue;
    const int query = first + i * kWarps + warp_index();
    const int row = query / group, head = c.kv_head * group + query % group;
    float* part = a.p.part_outputs +
                  (static_cast<size_t>(c.index) * kMaxDecodeRows + row) * q_dim_of(heads) +
                  head * heads.head_dim;
#pragma unroll
    for (int e = 0; e < P; ++e) {
      const int at = mine + kWarp * e;
      if (at < pairs) {
        *reinterpret_cast<Float2*>(part + 2 * at) = Float2{out[i][2 * e], out[i][2 * e + 1]};
      }
    }
  }
}

template <bool kWindowed, bool kTree>
__global__ void __launch_bounds__(kThreads, 5) attend_chunks_kernel(AttendChunks a) {
  const Heads& heads = a.p.heads;
  const int n = heads.head_dim, n_rows = a.p.pass->n_rows;
  Chunk c;
  c.index = static_cast<int>(blockIdx.x);
  c.kv_head = static_cast<int>(blockIdx.y);
  c.begin = c.index * kPositions;
  c.pos = a.p.pass->pos;
  const int len = c.pos + n_rows;
  if (c.begin >= len) return;
  c.tree = a.p.tree;
  c.root = kTree ? c.pos - a.p.pass->slot : c.pos;  // no row's position is before it
  if (kWindowed && c.begin + kPositions <= first_key(heads, c.root)) return;
  const int end = at_most(len, c.begin + kPositions);
  c.n_queries = n_rows * (heads.n_heads / heads.n_kv_heads);
  c.staged_keys = (end - c.begin + 15) / 16 * 16;
  c.staged = block_shared<uint32_t>();
  c.q = block_shared<float>(staged_bytes(n, kTree));
  c.weights = c.q + kTurn * n;
  c.bent = kPositions;
  c.tail = 0;
  if (kTree && c.root < c.begin + kPositions) {
    c.bent = c.root > c.begin ? c.root - c.begin : 0;
    c.tail = len > c.begin + kPositions ? len - c.begin - kPositions : 0;
  }

  // The pass's keys and values of this chunk go to the cache, whence they are read like all others.
  const int first_new = c.pos > c.begin ? c.pos : c.begin;
  if (first_new < end) {
    for (int at = first_new + warp_index(); at < end; at += kWarps) {
      store_key_value(heads, at - c.pos, c.kv_head, position_of<kTree>(c, at - c.pos), at,
                      c.q + warp_index() * kSlots * n);
    }
    __syncthreads();
  }
  for (int staged = 0; staged < c.n_queries; staged += a.staged_queries) {
    const int last = at_most(c.n_queries, staged + a.staged_queries);
    if (staged > 0) __syncthreads();  // the last values have been read
    stage_keys(heads, c);
    if (kTree) stage_tail_keys(heads, c);
    __syncthreads();
    for (int first = staged; first < last; first += kTurn) {
      score_turn<kWindowed, kTree>(a, c, first, c.weights + (first - staged) * kPositions);
    }
    __syncthreads();
    stage_values(heads, c);
    if (kTree) stage_tail_values(heads, c);
    __syncthreads();
    for (int first = staged; first < last; first += kTurn) {
      const float* weights = c.weights + (first - staged) * kPositions;
      for (int column = 0; column < n / 2; column += 2 * kWarp) {
        if (n / 2 - column > kWarp) {
          add_values<2, kWindowed, kTree>(a, c, first, column, weights);
        } else {
          add_values<1, kWindowed, kTree>(a, c, first, column, weights);
        }
      }
    }
  }
}

}  // namespace

void check_heads(const Heads& heads) {
  SB_CHECK(heads.n_kv_heads >= 1 && heads.n_heads >= 1 && heads.n_heads % heads.n_kv_heads == 0);
  SB_CHECK(heads.head_dim >= 8 && heads.head_dim % 8 == 0 && heads.head_dim <= kMaxHeadDim);
  SB_CHECK(heads.qkv != nullptr && heads.rope_dim >= 0 && heads.rope_dim <= heads.head_dim);
  SB_CHECK(heads.rope_dim % 2 == 0);
  SB_CHECK(heads.rope_dim == 0 || (heads.cosine != nullptr && heads.sine != nullptr));
  SB_CHECK(heads.score_scale > 0 && heads.softcap >= 0 && heads.window >= 0);
  SB_CHECK(aligned(heads.kv.k, 16) && aligned(heads.kv.v, 16));
  SB_CHECK(heads.kv.n_ctx > 0 && heads.kv.n_ctx % kPositions == 0);
}

void check_attend(const Attend& p) {
  SB_CHECK(p.pass != nullptr && p.attended != nullptr);
  check_heads(p.heads);
  SB_CHECK(p.context > 0 && p.context % kPositions == 0 && p.context <= p.heads.kv.n_ctx);
  SB_CHECK(aligned(p.part_states, 8) && aligned(p.part_outputs, 8));
  if (p.quantized.q == nullptr) return;
  SB_CHECK(aligned(p.quantized.q, 16) && aligned(p.quantized.d, 8));
  SB_CHECK(p.quantized.n_in == p.heads.n_heads * p.heads.head_dim);
  SB_CHECK(p.quantized.n_in % kQuantBlock == 0);
}

void attend_chunks(const Attend& p, Stream stream) {
  check_attend(p);
  const int n = p.heads.head_dim, group = p.heads.n_heads / p.heads.n_kv_heads;
  AttendChunks a{p, kMaxStagedQueries};
  if (kMaxDecodeRows * group < kMaxStagedQueries) a.staged_queries = kMaxDecodeRows * group;
  const size_t before = staged_bytes(n, p.tree != nullptr) + kTurn * n * sizeof(float);
  constexpr size_t kOfQuery = kPositions * sizeof(float);
  while (before + a.staged_queries * kOfQuery > kMostShared) a.staged_queries -= kTurn;
  const Grid blocks{static_cast<unsigned>(p.context / kPositions),
                    static_cast<unsigned>(p.heads.n_kv_heads)};
  const bool windowed = p.heads.window > 0;
  auto kernel = windowed ? attend_chunks_kernel<true, false> : attend_chunks_kernel<false, false>;
  if (p.tree != nullptr) {
    kernel = windowed ? attend_chunks_kernel<true, true> : attend_chunks_kernel<false, true>;
  }
  launch(kernel, "attend_chunks", {blocks, kThreads, before + a.staged_queries * kOfQuery}, stream,
         a);
}

}  // namespace specbound::kernels
