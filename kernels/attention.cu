// Attention of a decode pass: a block for each K/V head and chunk, whose keys and values serve all
// queries at once.
#include "attention.h"

#include <algorithm>

#include "attention_chunk.cuh"
#include "attention_join.cuh"
#include "finish_head.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kPair = 2;                     // queries that a warp serves at once
constexpr int kTurn = 16;                    // and a block
constexpr int kMaxStagedQueries = 64;        // between keys and values, where these take turns
constexpr int kPairsScaled = kKvScaled / 2;  // pairs of numbers that share a scale
constexpr size_t kMostShared = 64 << 10;     // bytes that a block of sm_75 has

struct AttendChunks {
  Attend p;
  int staged_queries;  // a multiple of kTurn
  bool apart;          // values have a place of their own beside the keys
};

SPECBOUND_DEVICE int at_most(int n, int most) {
  return n < most ? n : most;
}

// Keys begin..end - 1 of a chunk; none where end is 0.
struct Keys {
  int begin, end;
};

// Those of the chunk that query `i` sees; none for queries past the last. Kernels without a window
// know at compile time that begin is 0.
template <bool kWindowed, bool kTree, class Kv>
SPECBOUND_DEVICE Keys visible_keys(const Heads& heads, const Chunk<Kv>& c, int i) {
  if (i >= c.n_queries) return {0, 0};
  const int pos = position_of<kTree>(c, i / c.group);
  const int n = pos + 1 - c.begin, end = n < 0 ? 0 : at_most(n, kPositions);
  const int first = kWindowed ? first_key(heads, pos) - c.begin : 0;
  return first >= kPositions ? Keys{0, 0} : Keys{first < 0 ? 0 : first, end};
}

// dots[i] + q_i . k of numbers d..end - 1, by ascending d, less their scale; d a multiple of 8.
template <class Kv>
SPECBOUND_DEVICE void add_products(const KvRow<Kv>& key, int d, int end, const float* q0,
                                   const float* q1, float (&dots)[kPair]) {
#pragma unroll 1
  for (; d < end; d += 8) {
    float k[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) k[e] = Kv::value(key.number(d + e));
#pragma unroll
    for (int e = 0; e < 8; e += 4) {
      const Float4 x0 = *reinterpret_cast<const Float4*>(q0 + d + e);
      const Float4 x1 = *reinterpret_cast<const Float4*>(q1 + d + e);
      dots[0] = fused(k[e], x0.x, dots[0]);
      dots[1] = fused(k[e], x1.x, dots[1]);
      dots[0] = fused(k[e + 1], x0.y, dots[0]);
      dots[1] = fused(k[e + 1], x1.y, dots[1]);
      dots[0] = fused(k[e + 2], x0.z, dots[0]);
      dots[1] = fused(k[e + 2], x1.z, dots[1]);
      dots[0] = fused(k[e + 3], x0.w, dots[0]);
      dots[1] = fused(k[e + 3], x1.w, dots[1]);
    }
  }
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
template <class Kv>
SPECBOUND_DEVICE void follow_path(const Chunk<Kv>& c, const Keys& keys, uint64_t path,
                                  const float* q, int head_dim, float (&dots)[2]) {
  const int lane = lane_index();
  float behind = 0.0f;  // the dot product of place 64 + lane
  if (lane < c.tail) {
    const KvRow<Kv> key = tail_key(c, head_dim, lane);
    if constexpr (Kv::kScaled) {
#pragma unroll 1
      for (int first = 0; first < head_dim; first += kKvScaled) {
        const int end = at_most(head_dim, first + kKvScaled);
        float of_scale = 0.0f;
#pragma unroll 4
        for (int d = first; d < end; ++d) {
          of_scale = fused(Kv::value(key.number(d)), q[d], of_scale);
        }
        behind = fused(of_scale, half_float(key.scale(first / kKvScaled)), behind);
      }
    } else {
#pragma unroll 4
      for (int d = 0; d < head_dim; ++d) behind = fused(Kv::value(key.number(d)), q[d], behind);
    }
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

// What the block does for the queries first..first + kTurn - 1, in steps that end with a barrier;
// the last one has none, for the first step of the next turn touches nothing that it reads.
// Whatever their number, all warps take part: few queries are as many steps long as many are.
template <bool kWindowed, bool kTree, class Kv>
struct Turn {
  const AttendChunks& a;
  const Chunk<Kv>& c;
  int first, count;  // queries
  float* weights;    // (kTurn, 64)

  SPECBOUND_DEVICE const Heads& heads() const { return a.p.heads; }
  SPECBOUND_DEVICE int row_of(int i) const { return (first + i) / c.group; }
  SPECBOUND_DEVICE int head_of(int i) const { return c.kv_head * c.group + (first + i) % c.group; }
  SPECBOUND_DEVICE Keys keys_of(int i) const {
    return i < count ? visible_keys<kWindowed, kTree>(heads(), c, first + i) : Keys{0, 0};
  }

  // A query a warp.
  SPECBOUND_DEVICE void finish_queries() const {
#pragma unroll 1
    for (int i = warp_index(); i < count; i += kChunkWarps) {
      if (keys_of(i).end == 0) continue;
      const int row = row_of(i);
      finish_query(heads(), row, head_of(i), position_of<kTree>(c, row),
                   c.q + i * heads().head_dim);
    }
    __syncthreads();
  }

  // Dot products: two queries and half of the keys a warp, a key a lane.
  SPECBOUND_DEVICE void score() const {
    const int n = heads().head_dim;
#pragma unroll 1
    for (int unit = warp_index(); unit < count + count % kPair; unit += kChunkWarps) {
      const int i = unit / kPair * kPair, place = unit % kPair * kWarp + lane_index();
      if (unit % kPair * kWarp >= c.staged_keys) continue;
      const bool live[kPair] = {keys_of(i).end > 0, keys_of(i + 1).end > 0};
      if (!live[0] && !live[1]) continue;
      const KvRow<Kv> key = staged_key(c, n, place);
      const float *q0 = c.q + i * n, *q1 = live[1] ? q0 + n : q0;
      float dots[kPair] = {};
      if constexpr (Kv::kScaled) {
#pragma unroll 1
        for (int d = 0; d < n; d += kKvScaled) {
          float of_scale[kPair] = {};
          add_products(key, d, at_most(n, d + kKvScaled), q0, q1, of_scale);
          const float scale = half_float(key.scale(d / kKvScaled));
#pragma unroll
          for (int e = 0; e < kPair; ++e) dots[e] = fused(of_scale[e], scale, dots[e]);
        }
      } else {
        add_products(key, 0, n, q0, q1, dots);
      }
      float* row = weights + i * kPositions + place;
      row[0] = dots[0];
      if (live[1]) row[kPositions] = dots[1];
    }
    __syncthreads();
  }

  // Dot products become weights: a query a warp, two keys a lane.
  SPECBOUND_DEVICE void soften() const {
    const int lane = lane_index(), n = heads().head_dim;
#pragma unroll 1
    for (int i = warp_index(); i < count; i += kChunkWarps) {
      const Keys keys = keys_of(i);
      if (keys.end == 0) continue;
      const int row = row_of(i);
      const size_t state = (static_cast<size_t>(row) * heads().n_heads + head_of(i)) *
                               (heads().kv.n_ctx / kPositions) +
                           c.index;
      const Float2 of_lane = *reinterpret_cast<const Float2*>(weights + i * kPositions + 2 * lane);
      float dots[2] = {of_lane.x, of_lane.y};
      if (kTree && c.bent < kPositions) {
        follow_path(c, keys, c.tree->path[row], c.q + i * n, n, dots);
      }
      softmax_chunk(heads(), dots, keys, weights + i * kPositions, a.p.part_states + 2 * state);
    }
    __syncthreads();
  }

  // Weighted sums of the values, by ascending keys: two queries and 64 dimensions a warp, two
  // dimensions a lane.
  SPECBOUND_DEVICE void weigh() const {
    const int n = heads().head_dim, pairs = n / 2, groups = (pairs + kWarp - 1) / kWarp;
    const auto* values = reinterpret_cast<const typename Kv::Pair*>(c.values);
    const int of_scales = scale_numbers<Kv>(n) / 2;  // behind each block
#pragma unroll 1
    for (int unit = warp_index(); unit < (count + 1) / kPair * groups; unit += kChunkWarps) {
      const int first_of = unit / groups * kPair, at = unit % groups * kWarp + lane_index();
      Keys keys[kPair];
      int least = kWindowed ? kPositions : 0, most = 0;
      float out[kPair][2] = {};
#pragma unroll
      for (int i = 0; i < kPair; ++i) {
        keys[i] = keys_of(first_of + i);
        if (kWindowed && keys[i].end > 0) least = at_most(keys[i].begin, least);
        most = keys[i].end > most ? keys[i].end : most;
      }
      const float* row = weights + first_of * kPositions;
      const int straight = kTree ? at_most(c.bent / 4 * 4, most) : most;
#pragma unroll 2
      for (int key = least / 4 * 4; key < straight; key += 4) {
        const int before = Kv::kScaled ? key / kKeyBlock * of_scales : 0;
        float v[4][2];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const typename Kv::Pair pair = at < pairs ? values[(key + j) * pairs + before + at] : 0;
          v[j][0] = Kv::first(pair);
          v[j][1] = Kv::second(pair);
        }
        [[maybe_unused]] float scale[4];
        if constexpr (Kv::kScaled) {
          const int b = at < pairs ? at / kPairsScaled : 0;
          const auto* four = &staged_value(c, n, key).scale(b);
          const Word2 halves = *reinterpret_cast<const Word2*>(four);
          scale[0] = KvF16::first(halves.x);
          scale[1] = KvF16::second(halves.x);
          scale[2] = KvF16::first(halves.y);
          scale[3] = KvF16::second(halves.y);
        }
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
          if (key >= keys[i].end) continue;
          const Float4 four = *reinterpret_cast<const Float4*>(row + i * kPositions + key);
          const float weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if (key + j >= keys[i].end) continue;
            if (kWindowed && key + j < keys[i].begin) continue;
            float scaled = weight[j];
            if constexpr (Kv::kScaled) scaled = scaled * scale[j];
            out[i][0] = fused(v[j][0], scaled, out[i][0]);
            out[i][1] = fused(v[j][1], scaled, out[i][1]);
          }
        }
      }
      if (kTree) {
#pragma unroll 1
        for (int key = straight; key < most; ++key) {
#pragma unroll
          for (int i = 0; i < kPair; ++i) {
            if (key >= keys[i].end || (kWindowed && key < keys[i].begin)) continue;
            const uint64_t path = c.tree->path[row_of(first_of + i)];
            const int place = key < c.bent ? key : place_of(c, path, key);
            float weight = row[i * kPositions + key];
            if constexpr (Kv::kScaled) {
              const int b = at < pairs ? at / kPairsScaled : 0;
              weight = weight * half_float(staged_value(c, n, place).scale(b));
            }
            const int before = place * pairs + place / kKeyBlock * of_scales;
            const typename Kv::Pair pair = at < pairs ? values[before + at] : 0;
            out[i][0] = fused(Kv::first(pair), weight, out[i][0]);
            out[i][1] = fused(Kv::second(pair), weight, out[i][1]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kPair; ++i) {
        if (keys[i].end == 0 || at >= pairs) continue;
        float* part = a.p.part_outputs +
                      (static_cast<size_t>(c.index) * kMaxDecodeRows + row_of(first_of + i)) *
                          q_dim_of(heads()) +
                      head_of(first_of + i) * heads().head_dim;
        *reinterpret_cast<Float2*>(part + 2 * at) = Float2{out[i][0], out[i][1]};
      }
    }
  }
};

// K/V heads, of so many outputs each, that are joined together: as many as fill whole blocks of the
// quantized row. Outputs come in eights, and all together in whole blocks.
SPECBOUND_DEVICE int heads_joined(const Attend& p, int outputs) {
  if (p.quantized.q == nullptr || outputs % kQuantBlock == 0) return 1;
  return outputs % (kQuantBlock / 2) == 0 ? 2 : 4;
}

// The last of the blocks for these K/V heads joins what all of them left. It finds out anew what
// the kernel knew at its start, whose registers are scarce.
template <bool kWindowed, bool kTree>
SPECBOUND_DEVICE void join_in_last_block(const Attend& p) {
  const int n_rows = p.pass->n_rows, pos = p.pass->pos;
  const int root = kTree ? pos - p.pass->slot : pos;
  const int first_chunk = kWindowed ? first_key(p.heads, root) / kPositions : 0;
  const int n_chunks = (pos + n_rows - 1) / kPositions - first_chunk + 1;  // that had a block
  const int outputs = p.heads.n_heads / p.heads.n_kv_heads * p.heads.head_dim;
  const int heads = heads_joined(p, outputs), first = static_cast<int>(blockIdx.y) / heads;
  auto* last = block_shared<uint32_t>(kJoinBytes<kChunkThreads>);
  __syncthreads();  // this block's parts are written, its shared memory has been read
  if (threadIdx.x == 0) {
    *last = is_last_of(static_cast<uint32_t>(heads * n_chunks), p.arrived + first);
  }
  __syncthreads();
  if (*last == 0) return;
  const int rows = p.quantized.q == nullptr ? n_rows : panels_of(n_rows) * kPanelRows;
  const int n = heads * outputs, end = (first + 1) * n;
#pragma unroll 1
  for (int row = 0; row < rows; ++row) {
#pragma unroll 1
    for (int begin = first * n; begin < end; begin += kChunkThreads) {
      join_outputs<kChunkThreads, 8>(p, row, n_rows, begin, end);
    }
  }
}

template <bool kWindowed, bool kTree, class Kv>
__global__ void __launch_bounds__(kChunkThreads, 4) attend_chunks_kernel(AttendChunks a) {
  let_next_start();
  const Heads& heads = a.p.heads;
  const int n = heads.head_dim, n_rows = a.p.pass->n_rows;
  Chunk<Kv> c;
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
  c.group = heads.n_heads / heads.n_kv_heads;
  c.n_queries = n_rows * c.group;
  c.staged_keys = (end - c.begin + 15) / 16 * 16;
  c.keys = block_shared<typename Kv::Number>();
  const size_t staged = staged_bytes<Kv>(n, kTree);
  c.values = block_shared<typename Kv::Number>(a.apart ? staged : 0);
  c.q = block_shared<float>(a.apart ? 2 * staged : staged);
  c.weights = c.q + kTurn * n;
  c.bent = kPositions;
  c.tail = 0;
  if (kTree && c.root < c.begin + kPositions) {
    c.bent = c.root > c.begin ? c.root - c.begin : 0;
    c.tail = len > c.begin + kPositions ? len - c.begin - kPositions : 0;
  }

  // What the cache has is on its way while the matmul before this still makes what it has not.
  const int first_new = c.pos > c.begin ? c.pos : c.begin;
  stage_keys(heads, c);
  if (a.apart) stage_values(heads, c);
  wait_for_previous();
  if (first_new < end) {
    __syncthreads();  // the places of the new ones have been written
    add_keys<kTree>(heads, c, first_new, end);
    if (a.apart) add_values(heads, c, first_new, end);
  }
  if (kTree) {
    stage_tail_keys(heads, c);
    if (a.apart) stage_tail_values(heads, c);
  }
  __syncthreads();
#pragma unroll 1
  for (int begin = 0; begin < c.n_queries; begin += a.staged_queries) {
    const int last = at_most(c.n_queries, begin + a.staged_queries);
    const auto turn = [&](int first) {
      return Turn<kWindowed, kTree, Kv>{a, c, first, at_most(last - first, kTurn),
                                        c.weights + (first - begin) * kPositions};
    };
    if (!a.apart && begin > 0) {
      __syncthreads();  // the last values have been read
      stage_keys(heads, c);
      if (kTree) stage_tail_keys(heads, c);
      __syncthreads();
    }
#pragma unroll 1
    for (int first = begin; first < last; first += kTurn) {
      turn(first).finish_queries();
      turn(first).score();
      turn(first).soften();
    }
    if (!a.apart) {
      stage_values(heads, c);
      if (begin == 0 && first_new < end) {
        __syncthreads();
        add_values(heads, c, first_new, end);
      }
      if (kTree) stage_tail_values(heads, c);
      __syncthreads();
    }
#pragma unroll 1
    for (int first = begin; first < last; first += kTurn) turn(first).weigh();
  }
  if constexpr (can_join_chunks(kTree, Kv::kScaled)) {
    if (a.p.arrived != nullptr) join_in_last_block<kWindowed, kTree>(a.p);
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
  if (p.arrived != nullptr) {
    SB_CHECK(aligned(p.arrived, 4) && p.sequences == nullptr);
    SB_CHECK(can_join_chunks(p.tree != nullptr, p.heads.kv.int8));
  }
  if (p.quantized.q == nullptr) return;
  SB_CHECK(aligned(p.quantized.q, 16) && aligned(p.quantized.d, 8));
  SB_CHECK(p.quantized.n_in == p.heads.n_heads * p.heads.head_dim);
  SB_CHECK(p.quantized.n_in % kQuantBlock == 0);
}

namespace {

// Results of chunks that a thread takes to join those of a row. It waits for 8 at once, where
// combine_chunks() waits for 16 in as many blocks as it likes: with more than these the waits take
// longer than a launch. Counted; no GPU has measured it.
constexpr int kMostJoined = 32;

}  // namespace

bool better_joined(const Attend& p) {
  if (p.sequences != nullptr || !can_join_chunks(p.tree != nullptr, p.heads.kv.int8)) return false;
  const Heads& heads = p.heads;
  int chunks = p.context / kPositions;  // that a row may see
  if (heads.window > 0) {
    chunks = std::min(chunks, (heads.window + kPositions - 2) / kPositions + 1);
  }
  const int outputs = heads.n_heads / heads.n_kv_heads * heads.head_dim;  // of a K/V head
  return (outputs + kChunkThreads - 1) / kChunkThreads * chunks <= kMostJoined;
}

namespace {

template <class Kv>
void launch_chunks(const Attend& p, Stream stream) {
  const int n = p.heads.head_dim;
  const size_t staged = staged_bytes<Kv>(n, p.tree != nullptr), q = kTurn * n * sizeof(float);
  constexpr size_t kOfQuery = kPositions * sizeof(float);
  AttendChunks a{p, kTurn, true};
  size_t shared = 2 * staged + q + kTurn * kOfQuery;
  if (shared > kMostShared) {
    a.apart = false;
    a.staged_queries = kMaxStagedQueries;
    while (staged + q + a.staged_queries * kOfQuery > kMostShared) a.staged_queries -= kTurn;
    shared = staged + q + a.staged_queries * kOfQuery;
  }
  if (p.arrived != nullptr) {
    shared = std::max(shared, kJoinBytes<kChunkThreads> + sizeof(uint32_t));
  }
  const Grid blocks{static_cast<unsigned>(p.context / kPositions),
                    static_cast<unsigned>(p.heads.n_kv_heads)};
  const bool windowed = p.heads.window > 0;
  auto kernel =
      windowed ? attend_chunks_kernel<true, false, Kv> : attend_chunks_kernel<false, false, Kv>;
  if (p.tree != nullptr) {
    kernel =
        windowed ? attend_chunks_kernel<true, true, Kv> : attend_chunks_kernel<false, true, Kv>;
  }
  launch(kernel, "attend_chunks", {blocks, kChunkThreads, shared, p.overlaps}, stream, a);
}

}  // namespace

void attend_chunks(const Attend& p, Stream stream) {
  check_attend(p);
  p.heads.kv.int8 ? launch_chunks<KvI8>(p, stream) : launch_chunks<KvF16>(p, stream);
}

}  // namespace specbound::kernels
