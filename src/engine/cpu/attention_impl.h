// Attention over the vector operations of a simd_*.h, which is included first: a part of
// kernels_impl.h, and its rules hold here.
#pragma once

#include "engine/cpu/float_impl.h"
#include "engine/cpu/kernels.h"

namespace specbound {
namespace {

// Halves ahead of what is read of K and of V: between two visits the weights of all layers pass
// through the caches. From memory three queries of 900 keys take 21 us with it, 30 without.
constexpr int kHalvesAhead = 4096;
constexpr int kKeyVectors = kAttentionChunk / kKeyBlock;

// score[i][j] (16 positions each, lanes are positions) = q_i . k by ascending d, one fma a lane,
// for a chunk's key blocks [first, n), J at once as long as there are J; k is at the first.
template <int Q, int J>
inline void chunk_scores(const uint16_t* k, int first, int n, const Query* queries, int head_dim,
                         V (*score)[kKeyVectors]) {
  const size_t block = static_cast<size_t>(head_dim) * kKeyBlock;
  for (; first + J <= n; first += J, k += J * block) {
    V acc[Q][J];
    for (int i = 0; i < Q; ++i) {
      for (int j = 0; j < J; ++j) acc[i][j] = zero();
    }
    for (int d = 0; d < head_dim; ++d) {
      V kd[J];
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) {
        const uint16_t* at = k + j * block + static_cast<size_t>(d) * kKeyBlock;
        kd[j] = load_f16(at);
        prefetch(at + kHalvesAhead);
      }
#pragma GCC unroll 4
      for (int i = 0; i < Q; ++i) {
        const V qd = set1(queries[i].q[d]);
#pragma GCC unroll 4
        for (int j = 0; j < J; ++j) acc[i][j] = fma(kd[j], qd, acc[i][j]);
      }
    }
    for (int i = 0; i < Q; ++i) {
      for (int j = 0; j < J; ++j) score[i][first + j] = acc[i][j];
    }
  }
  if constexpr (J > 1) {
    if (first < n) chunk_scores<Q, J - 1>(k, first, n, queries, head_dim, score);
  }
}

// Which keys of a chunk count: [from, to) for each query, [all_from, all_to) for every one and at
// their own places (where it is not empty), none outside of [lowest, highest). Where no query's
// window begins in the chunk and none has keys of a tree there, the code is made without either
// (kGeneral false).
template <int Q, bool kGeneral>
struct SeenKeys {
  int from[Q] = {}, to[Q];
  int tree[Q];  // keys from here on lie where the query's path says
  int lowest = kGeneral ? kAttentionChunk : 0, all_from = 0, all_to = kAttentionChunk, highest = 0;

  SeenKeys(const Query* queries, int begin) {
    for (int i = 0; i < Q; ++i) {
      const int n = queries[i].pos + 1 - begin;
      to[i] = n < kAttentionChunk ? n : kAttentionChunk;
      all_to = to[i] < all_to ? to[i] : all_to;
      highest = to[i] > highest ? to[i] : highest;
      if constexpr (kGeneral) {
        const int skipped = queries[i].first - begin;
        from[i] = skipped > 0 ? skipped : 0;
        lowest = from[i] < lowest ? from[i] : lowest;
        all_from = from[i] > all_from ? from[i] : all_from;
        const int before = queries[i].root - begin;
        tree[i] = !queries[i].path ? kAttentionChunk : before > 0 ? before : 0;
        all_to = tree[i] < all_to ? tree[i] : all_to;
      }
    }
    if (kGeneral && all_to < all_from) all_to = all_from;
  }
};

// Where the cache holds the key and the value of position `pos`, which the query sees.
inline int place_of(const Query& query, int pos) {
  return query.path && pos >= query.root ? query.root + query.path[pos - query.root] : pos;
}

// The scores of a chunk's keys [from, to) that are those of a tree: of all places of the round, two
// key blocks at most, each to its position.
inline void tree_scores(const KvHead& head, const Query& query, int begin, int from, int to,
                        int head_dim, V* score) {
  const int first = query.root / kKeyBlock, last = place_of(query, query.pos) / kKeyBlock;
  V found[1][kKeyVectors];
  chunk_scores<1, 2>(head.k + static_cast<size_t>(first) * kKeyBlock * head_dim, 0,
                     last - first + 1, &query, head_dim, found);
  float at_place[2 * kKeyBlock], at_pos[kAttentionChunk];
  for (int b = 0; b <= last - first; ++b) store(at_place + b * kKeyBlock, found[0][b]);
  const int begin_block = from / kKeyBlock, end_block = (to + kKeyBlock - 1) / kKeyBlock;
  for (int b = begin_block; b < end_block; ++b) store(at_pos + b * kKeyBlock, score[b]);
  for (int j = from; j < to; ++j) {
    at_pos[j] = at_place[place_of(query, begin + j) - first * kKeyBlock];
  }
  for (int b = begin_block; b < end_block; ++b) score[b] = load(at_pos + b * kKeyBlock);
}

// out_i = old_scale_i out_i + new_scale_i sum_j weight[i][j] v_j over a chunk's keys, ascending, in
// D times 16 dimensions from d on.
template <int Q, int D, bool kGeneral>
inline void add_values(const KvHead& head, const Query* queries, int begin, int d,
                       const SeenKeys<Q, kGeneral>& seen, const float (*weight)[kAttentionChunk],
                       const float* old_scale, const float* new_scale, float* scratch) {
  V out[Q][D];
  for (int i = 0; i < Q; ++i) {
    for (int e = 0; e < D; ++e) out[i][e] = zero();
  }
  int j = kGeneral ? seen.lowest : 0;
  const uint16_t* v = head.v + static_cast<size_t>(begin + j) * head.v_stride + d;
  const auto add_some = [&](int end) __attribute__((always_inline)) {
    for (; j < end; ++j, v += head.v_stride) {
      for (int i = 0; i < Q; ++i) {
        if ((kGeneral && j < seen.from[i]) || j >= seen.to[i]) continue;
        const uint16_t* vi = v;
        if (kGeneral && j >= seen.tree[i]) {
          vi = head.v + static_cast<size_t>(place_of(queries[i], begin + j)) * head.v_stride + d;
        }
        for (int e = 0; e < D; ++e) {
          out[i][e] = fma(load_f16(vi + 16 * e), set1(weight[i][j]), out[i][e]);
        }
      }
    }
  };
  if constexpr (kGeneral) add_some(seen.all_from);
  for (; j < seen.all_to; ++j, v += head.v_stride) {
#pragma GCC unroll 8
    for (int e = 0; e < D; ++e) {
      const V vj = load_f16(v + 16 * e);
      if (e % 2 == 0) prefetch(v + 16 * e + kHalvesAhead);
#pragma GCC unroll 4
      for (int i = 0; i < Q; ++i) out[i][e] = fma(vj, set1(weight[i][j]), out[i][e]);
    }
  }
  add_some(seen.highest);
  for (int i = 0; i < Q; ++i) {
    float* sum_so_far = scratch + static_cast<size_t>(i) * (head.v_stride + 2) + d;
    for (int e = 0; e < D; ++e, sum_so_far += 16) {
      const V rescaled = mul(load(sum_so_far), set1(old_scale[i]));
      store(sum_so_far, fma(out[i][e], set1(new_scale[i]), rescaled));
    }
  }
}

// One chunk of one K/V head for Q queries. A query's result so far is its row of scratch:
// out (v_stride), then the largest score m and the sum l of exp(score - m).
template <int Q, bool kGeneral>
inline void attend_chunk(const KvHead& head, const Query* queries, int begin, int head_dim,
                         float scale, float cap, float* scratch) {
  // As many key blocks or dimensions at once as sums fit in registers, four vectors at most: one
  // sum alone waits for each of its fmas.
  constexpr int kAtOnce = kAttentionSums / Q < 4 ? kAttentionSums / Q : 4;
  const SeenKeys<Q, kGeneral> seen(queries, begin);
  const int first = kGeneral ? seen.lowest / kKeyBlock : 0;
  const int blocks = (seen.highest + kKeyBlock - 1) / kKeyBlock;
  const uint16_t* k = head.k + static_cast<size_t>(begin + first * kKeyBlock) * head_dim;
  V score[Q][kKeyVectors];
  chunk_scores<Q, kAtOnce>(k, first, blocks, queries, head_dim, score);
  for (int i = 0; kGeneral && i < Q; ++i) {
    const int from = seen.tree[i] > seen.from[i] ? seen.tree[i] : seen.from[i];
    if (from < seen.to[i]) {
      tree_scores(head, queries[i], begin, from, seen.to[i], head_dim, score[i]);
    }
  }
  if (cap > 0) {
    for (int i = 0; i < Q; ++i) {
      for (int j = first; j < blocks; ++j) {
        score[i][j] = softcapped(mul(score[i][j], set1(scale)), cap);
      }
    }
    scale = 1;
  }
  float weight[Q][kAttentionChunk], chunk_max[Q], chunk_sum[Q];
  for (int i = 0; i < Q; ++i) {
    // Masked keys are skipped: their scores come from memory that may hold anything.
    const V masked = set1(-__builtin_inff());
    V largest = masked;
    for (int j = first; j < blocks; ++j) {
      const int skipped = seen.from[i] - 16 * j, left = seen.to[i] - 16 * j;
      V s = mul(score[i][j], set1(scale));
      if (left < 16) s = select(less(lanes(), set1(static_cast<float>(left))), s, masked);
      if (kGeneral && skipped > 0) {
        s = select(less(lanes(), set1(static_cast<float>(skipped))), masked, s);
      }
      score[i][j] = s;
      largest = max(s, largest);
    }
    chunk_max[i] = max_lane(largest);
    V total = zero();
    for (int j = first; j < blocks; ++j) {
      const V p = exp<true>(sub(score[i][j], set1(chunk_max[i])));
      store(weight[i] + 16 * j, p);
      total = add(total, p);
    }
    chunk_sum[i] = sum(total);
  }
  // Combine in chunk order; whether a row rescales is that row's own affair.
  const auto state = [&](int i) {
    return scratch + static_cast<size_t>(i) * (head.v_stride + 2) + head.v_stride;
  };
  static_assert(2 * Q <= 16);
  float largest[Q], scales[16] = {};  // the old ones, then the new ones
  for (int i = 0; i < Q; ++i) {
    const float before = state(i)[0];
    largest[i] = before > chunk_max[i] ? before : chunk_max[i];
    scales[i] = before - largest[i];
    scales[Q + i] = chunk_max[i] - largest[i];
  }
  store(scales, exp<true>(load(scales)));
  const float *old_scale = scales, *new_scale = scales + Q;
  for (int i = 0; i < Q; ++i) {
    float* so_far = state(i);
    so_far[0] = largest[i];
    so_far[1] = __builtin_fmaf(chunk_sum[i], new_scale[i], so_far[1] * old_scale[i]);
  }
  int d = 0;
  for (; d + 16 * kAtOnce <= head.v_stride; d += 16 * kAtOnce) {
    add_values<Q, kAtOnce, kGeneral>(head, queries, begin, d, seen, weight, old_scale, new_scale,
                                     scratch);
  }
  for (; d < head.v_stride; d += 16) {
    add_values<Q, 1, kGeneral>(head, queries, begin, d, seen, weight, old_scale, new_scale,
                               scratch);
  }
}

template <int Q>
inline void attend_chunk(const KvHead& head, const Query* queries, int begin, int head_dim,
                         float scale, float cap, float* scratch) {
  bool general = false;
  for (int i = 0; i < Q; ++i) {
    const bool tree = queries[i].path && queries[i].root < begin + kAttentionChunk;
    general |= tree || queries[i].first > begin;
  }
  if (general) {
    attend_chunk<Q, true>(head, queries, begin, head_dim, scale, cap, scratch);
  } else {
    attend_chunk<Q, false>(head, queries, begin, head_dim, scale, cap, scratch);
  }
}

void attention(const KvHead& head, const Query* queries, int n_queries, int head_dim, float scale,
               float cap, float* scratch) {
  const size_t stride = static_cast<size_t>(head.v_stride) + 2;
  int first = queries[0].first, last = 0;
  for (int i = 0; i < n_queries; ++i) {
    float* state = scratch + i * stride;
    __builtin_memset(state, 0, stride * sizeof(float));
    state[head.v_stride] = -__builtin_inff();
    first = queries[i].first < first ? queries[i].first : first;
    last = queries[i].pos > last ? queries[i].pos : last;
  }
  for (int begin = first / kAttentionChunk * kAttentionChunk; begin <= last;
       begin += kAttentionChunk) {
    int i = 0;
    while (i < n_queries) {
      const auto sees = [&](int n) {  // the next n queries all have keys in this chunk
        for (int j = i; j < i + n; ++j) {
          if (j >= n_queries || queries[j].pos < begin) return false;
          if (queries[j].first >= begin + kAttentionChunk) return false;
        }
        return true;
      };
      float* state = scratch + i * stride;
      if (sees(4)) {
        attend_chunk<4>(head, queries + i, begin, head_dim, scale, cap, state);
        i += 4;
      } else if (sees(3)) {
        attend_chunk<3>(head, queries + i, begin, head_dim, scale, cap, state);
        i += 3;
      } else if (sees(2)) {
        attend_chunk<2>(head, queries + i, begin, head_dim, scale, cap, state);
        i += 2;
      } else {
        if (sees(1)) attend_chunk<1>(head, queries + i, begin, head_dim, scale, cap, state);
        i += 1;
      }
    }
  }
  for (int i = 0; i < n_queries; ++i) {
    const float* state = scratch + i * stride;
    const V inverse = set1(1.0f / state[head.v_stride + 1]);
    for (int d = 0; d < head_dim; d += 16) {
      const int n = head_dim - d < 16 ? head_dim - d : 16;
      store_n(queries[i].out + d, mul(load(state + d), inverse), n);
    }
  }
}

}  // namespace
}  // namespace specbound
