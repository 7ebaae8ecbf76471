// Attention over the vector operations of a simd_*.h, which is included first: a part of
// kernels_impl.h, and its rules hold here.
#pragma once

#include "engine/cpu/float_impl.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_rows_impl.h"

namespace specbound {
namespace {

// Bytes ahead of what is read of K and of V: between two visits the weights of all layers pass
// through the caches. From memory three queries of 900 keys take 21 us with it, 30 without.
constexpr int kBytesAhead = 8192;
constexpr int kKeyVectors = kAttentionChunk / kKeyBlock;
constexpr int kMostQueries = 6;  // at once
static_assert(kAttentionSums >= kMostQueries);

// The cache line that is so far ahead of p.
template <class Number>
inline void prefetch_ahead(const Number* p) {
  prefetch(p + kBytesAhead / sizeof(Number));
}

// score[i][j] (16 positions each, lanes are positions) = q_i . k for key blocks [first, n) of the
// chunk at `begin`, J at once as long as there are J: by ascending d, one fma a lane. Where numbers
// share scales, their products are summed so, and these sums times the scales by one fma each.
template <class Kv, int Q, int J>
inline void chunk_scores(const KvHead& head, int begin, int first, int n, const Query* queries,
                         int head_dim, V (*score)[kKeyVectors]) {
  constexpr int kPerLine = 4 / sizeof(typename Kv::Number);  // vectors
  const size_t block = key_block_bytes(Kv::kType, head_dim) / sizeof(typename Kv::Number);
  for (; first + J <= n; first += J) {
    const typename Kv::Number* k = keys_of<Kv>(head, begin / kKeyBlock + first, head_dim);
    V total[Q][J];
    for (int i = 0; i < Q; ++i) {
      for (int j = 0; j < J; ++j) total[i][j] = zero();
    }
    for (int d = 0; d < head_dim;) {
      const int end = Kv::kScaled && head_dim - d > kKvScaled ? d + kKvScaled : head_dim;
      const int scale = d / kKvScaled * kKeyBlock;
      V acc[Q][J];
      for (int i = 0; i < Q; ++i) {
        for (int j = 0; j < J; ++j) acc[i][j] = zero();
      }
      for (; d < end; ++d) {
        V kd[J];
#pragma GCC unroll 4
        for (int j = 0; j < J; ++j) {
          const typename Kv::Number* at = k + j * block + static_cast<size_t>(d) * kKeyBlock;
          kd[j] = Kv::read(at);
          if (!Kv::kScaled || d % kPerLine == 0) prefetch_ahead(at);
        }
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i) {
          const V qd = set1(queries[i].q[d]);
#pragma GCC unroll 4
          for (int j = 0; j < J; ++j) acc[i][j] = fma(kd[j], qd, acc[i][j]);
        }
      }
      for (int j = 0; j < J; ++j) {
        if constexpr (Kv::kScaled) {
          const int at = begin / kKeyBlock + first + j;
          const V s = load_f16(key_scales(head, at, head_dim) + scale);
          for (int i = 0; i < Q; ++i) total[i][j] = fma(acc[i][j], s, total[i][j]);
        } else {
          for (int i = 0; i < Q; ++i) total[i][j] = acc[i][j];
        }
      }
    }
    for (int i = 0; i < Q; ++i) {
      for (int j = 0; j < J; ++j) score[i][first + j] = total[i][j];
    }
  }
  if constexpr (J > 1) {
    if (first < n) chunk_scores<Kv, Q, J - 1>(head, begin, first, n, queries, head_dim, score);
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
template <class Kv>
inline void tree_scores(const KvHead& head, const Query& query, int begin, int from, int to,
                        int head_dim, V* score) {
  const int first = query.root / kKeyBlock, last = place_of(query, query.pos) / kKeyBlock;
  V found[1][kKeyVectors];
  chunk_scores<Kv, 1, 2>(head, first * kKeyBlock, 0, last - first + 1, &query, head_dim, found);
  float at_place[2 * kKeyBlock], at_pos[kAttentionChunk];
  for (int b = 0; b <= last - first; ++b) store(at_place + b * kKeyBlock, found[0][b]);
  const int begin_block = from / kKeyBlock, end_block = (to + kKeyBlock - 1) / kKeyBlock;
  for (int b = begin_block; b < end_block; ++b) store(at_pos + b * kKeyBlock, score[b]);
  for (int j = from; j < to; ++j) {
    at_pos[j] = at_place[place_of(query, begin + j) - first * kKeyBlock];
  }
  for (int b = begin_block; b < end_block; ++b) score[b] = load(at_pos + b * kKeyBlock);
}

// Where the sums of a chunk go: into what the chunks before it gave, by these factors, or nowhere.
struct Join {
  bool apart = false;      // the chunk's own are left as they are
  float factors[16] = {};  // [query] of what was before, then [query] of the chunk's
};

// What stands at `before`, and a chunk's own.
inline V joined(const float* before, V own, const Join& join, int query, int n_queries) {
  const V rescaled = mul(load(before), set1(join.factors[query]));
  return fma(own, set1(join.factors[n_queries + query]), rescaled);
}

// out_i = factor_i out_i + factor'_i sum_j weight[i][j] v_j over a chunk's keys, ascending, in D
// times 16 dimensions from d on; of those that share scales, weight[b] is for the b-th. Not
// inlined: constants of its surroundings would take registers from the sums.
template <class Kv, int Q, int D, bool kGeneral>
[[gnu::noinline]] void add_values(const KvHead& head, const Query* queries, int begin, int d,
                                  const SeenKeys<Q, kGeneral>& seen,
                                  const float (*weight)[Q][kAttentionChunk], const Join& join,
                                  float* results) {
  constexpr int kPerLine = 4 / sizeof(typename Kv::Number);  // vectors
  const auto weight_of = [&](int i, int e, int j) __attribute__((always_inline)) {
    return set1(weight[Kv::kScaled ? e / 2 : 0][i][j]);
  };
  V out[Q][D];
  for (int i = 0; i < Q; ++i) {
    for (int e = 0; e < D; ++e) out[i][e] = zero();
  }
  int j = kGeneral ? seen.lowest : 0;
  const typename Kv::Number* v = value_of<Kv>(head, begin + j) + d;
  const auto add_some = [&](int end) __attribute__((always_inline)) {
    for (; j < end; ++j, v += head.v_stride) {
      for (int i = 0; i < Q; ++i) {
        if ((kGeneral && j < seen.from[i]) || j >= seen.to[i]) continue;
        const typename Kv::Number* vi = v;
        if (kGeneral && j >= seen.tree[i]) {
          vi = value_of<Kv>(head, place_of(queries[i], begin + j)) + d;
        }
        for (int e = 0; e < D; ++e) {
          out[i][e] = fma(Kv::read(vi + 16 * e), weight_of(i, e, j), out[i][e]);
        }
      }
    }
  };
  if constexpr (kGeneral) add_some(seen.all_from);
  for (; j < seen.all_to; ++j, v += head.v_stride) {
#pragma GCC unroll 8
    for (int e = 0; e < D; ++e) {
      const V vj = Kv::read(v + 16 * e);
      if (e % kPerLine == 0) prefetch_ahead(v + 16 * e);
#pragma GCC unroll 8
      for (int i = 0; i < Q; ++i) out[i][e] = fma(vj, weight_of(i, e, j), out[i][e]);
    }
  }
  add_some(seen.highest);
  for (int i = 0; i < Q; ++i) {
    float* result = results + static_cast<size_t>(i) * (head.v_stride + 2) + d;
    for (int e = 0; e < D; ++e, result += 16) {
      store(result, join.apart ? out[i][e] : joined(result, out[i][e], join, i, Q));
    }
  }
}

// scaled[b][i][j] = weight[i][j] times the scale of the value of key j, for N scales from `first`
// on.
template <int Q, int N, bool kGeneral>
inline void scale_weights(const KvHead& head, const Query* queries, int begin, int first,
                          const SeenKeys<Q, kGeneral>& seen,
                          const float (&weight)[Q][kAttentionChunk],
                          float (*scaled)[Q][kAttentionChunk]) {
  const int lowest = kGeneral ? seen.lowest / 16 * 16 : 0;
  for (int b = 0; b < N; ++b) {
    const int at = (first + b) * kAttentionChunk;
    const uint16_t* scales = value_scales(head, begin / kAttentionChunk) + at;
    for (int j = lowest; j < seen.highest; j += 16) {
      const V s = load_f16(scales + j);
      for (int i = 0; i < Q; ++i) store(scaled[b][i] + j, mul(load(weight[i] + j), s));
    }
    for (int i = 0; kGeneral && i < Q; ++i) {  // keys of a tree have their values elsewhere
      for (int j = seen.tree[i] > seen.from[i] ? seen.tree[i] : seen.from[i]; j < seen.to[i]; ++j) {
        const int place = place_of(queries[i], begin + j);
        const uint16_t* of_chunk = value_scales(head, place / kAttentionChunk) + at;
        scaled[b][i][j] = weight[i][j] * half_scalar(of_chunk[place % kAttentionChunk]);
      }
    }
  }
}

// add_values() in D times 16 dimensions, as long as there are so many from d on.
template <class Kv, int Q, int D, bool kGeneral>
inline int add_dimensions(const KvHead& head, const Query* queries, int begin, int d,
                          const SeenKeys<Q, kGeneral>& seen,
                          const float (&weight)[Q][kAttentionChunk], const Join& join,
                          float* results) {
  static_assert(!Kv::kScaled || D == 1 || D % 2 == 0);  // none with a part of what shares a scale
  constexpr int kScales = (D + 1) / 2;
  [[maybe_unused]] float scaled[kScales][Q][kAttentionChunk];
  for (; d + 16 * D <= head.v_stride; d += 16 * D) {
    if constexpr (Kv::kScaled) {
      if (D > 1 || d % kKvScaled == 0) {  // else the 16 before them have the same
        scale_weights<Q, kScales>(head, queries, begin, d / kKvScaled, seen, weight, scaled);
      }
      add_values<Kv, Q, D>(head, queries, begin, d, seen, scaled, join, results);
    } else {
      add_values<Kv, Q, D>(head, queries, begin, d, seen, &weight, join, results);
    }
  }
  return d;
}

// A query's result is a row of results: out (v_stride), then the largest score m and the sum l of
// exp(score - m).
inline float* sums_of(float* results, int i, int v_stride) {
  return results + i * (static_cast<size_t>(v_stride) + 2) + v_stride;
}

// Those of chunks are joined in their order; whether a row rescales is that row's own affair.
template <int Q>
inline Join join_sums(float* results, int v_stride, const float* chunk_max,
                      const float* chunk_sum) {
  static_assert(2 * Q <= 16);
  Join join;
  float largest[Q];
  const auto sums = [&](int i) { return sums_of(results, i, v_stride); };
  for (int i = 0; i < Q; ++i) {
    const float before = sums(i)[0];
    largest[i] = before > chunk_max[i] ? before : chunk_max[i];
    join.factors[i] = before - largest[i];
    join.factors[Q + i] = chunk_max[i] - largest[i];
  }
  store(join.factors, exp<true>(load(join.factors)));
  for (int i = 0; i < Q; ++i) {
    const float rescaled = sums(i)[1] * join.factors[i];
    sums(i)[0] = largest[i];
    sums(i)[1] = __builtin_fmaf(chunk_sum[i], join.factors[Q + i], rescaled);
  }
  return join;
}

// weight[i][j] = exp(scale score[i][j] - chunk_max[i]), chunk_sum[i] their sum. Step by step for
// all queries: one alone waits for its own results all the time.
template <int Q, bool kGeneral>
inline void weigh(V (*score)[kKeyVectors], const SeenKeys<Q, kGeneral>& seen, int first, int blocks,
                  float scale, float (*weight)[kAttentionChunk], float* chunk_max,
                  float* chunk_sum) {
  // Masked keys are skipped: their scores come from memory that may hold anything.
  const V masked = set1(-__builtin_inff());
  V largest[Q];
  for (int i = 0; i < Q; ++i) {
    largest[i] = masked;
    for (int j = first; j < blocks; ++j) {
      const int skipped = seen.from[i] - 16 * j, left = seen.to[i] - 16 * j;
      V s = mul(score[i][j], set1(scale));
      if (left < 16) s = select(less(lanes(), set1(static_cast<float>(left))), s, masked);
      if (kGeneral && skipped > 0) {
        s = select(less(lanes(), set1(static_cast<float>(skipped))), masked, s);
      }
      score[i][j] = s;
      largest[i] = max(s, largest[i]);
    }
  }
  for (int i = 0; i < Q; ++i) chunk_max[i] = max_lane(largest[i]);
  V total[Q];
  for (int i = 0; i < Q; ++i) total[i] = zero();
  for (int j = first; j < blocks; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i) {
      const V p = exp<true>(sub(score[i][j], set1(chunk_max[i])));
      store(weight[i] + 16 * j, p);
      total[i] = add(total[i], p);
    }
  }
  for (int i = 0; i < Q; ++i) chunk_sum[i] = sum(total[i]);
}

// One chunk of one K/V head for Q queries: joined to their results, or apart, as those of the chunk
// alone.
template <class Kv, int Q, bool kGeneral>
inline void attend_chunk(const KvHead& head, const Query* queries, int begin, int head_dim,
                         float scale, float cap, float* results, bool apart) {
  // As many key blocks or dimensions at once as sums fit in registers, four vectors at most: one
  // sum alone waits for each of its fmas.
  constexpr int kAtOnce = kAttentionSums / Q < 4 ? kAttentionSums / Q : 4;
  constexpr int kValuesAtOnce = Kv::kScaled && kAtOnce == 3 ? 2 : kAtOnce;
  const SeenKeys<Q, kGeneral> seen(queries, begin);
  const int first = kGeneral ? seen.lowest / kKeyBlock : 0;
  const int blocks = (seen.highest + kKeyBlock - 1) / kKeyBlock;
  V score[Q][kKeyVectors];
  chunk_scores<Kv, Q, kAtOnce>(head, begin, first, blocks, queries, head_dim, score);
  for (int i = 0; kGeneral && i < Q; ++i) {
    const int from = seen.tree[i] > seen.from[i] ? seen.tree[i] : seen.from[i];
    if (from < seen.to[i]) {
      tree_scores<Kv>(head, queries[i], begin, from, seen.to[i], head_dim, score[i]);
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
  weigh<Q, kGeneral>(score, seen, first, blocks, scale, weight, chunk_max, chunk_sum);
  Join join{apart};
  if (apart) {
    for (int i = 0; i < Q; ++i) {
      float* sums = sums_of(results, i, head.v_stride);
      sums[0] = chunk_max[i];
      sums[1] = chunk_sum[i];
    }
  } else {
    join = join_sums<Q>(results, head.v_stride, chunk_max, chunk_sum);
  }
  const int d =
      add_dimensions<Kv, Q, kValuesAtOnce>(head, queries, begin, 0, seen, weight, join, results);
  add_dimensions<Kv, Q, 1>(head, queries, begin, d, seen, weight, join, results);
}

// The first n of Q queries or fewer.
template <class Kv, int Q>
inline void attend_chunk_of(int n, const KvHead& head, const Query* queries, int begin,
                            int head_dim, float scale, float cap, float* results, bool apart) {
  if constexpr (Q > 1) {
    if (n < Q) {
      return attend_chunk_of<Kv, Q - 1>(n, head, queries, begin, head_dim, scale, cap, results,
                                        apart);
    }
  }
  bool general = false;
  for (int i = 0; i < Q; ++i) {
    const bool tree = queries[i].path && queries[i].root < begin + kAttentionChunk;
    general |= tree || queries[i].first > begin;
  }
  if (general) {
    attend_chunk<Kv, Q, true>(head, queries, begin, head_dim, scale, cap, results, apart);
  } else {
    attend_chunk<Kv, Q, false>(head, queries, begin, head_dim, scale, cap, results, apart);
  }
}

constexpr float kUnseen = -1;  // in place of a sum: the query has no keys in the chunk

// One chunk for all queries that have keys in it.
template <class Kv>
inline void attend_chunk_of_all(const KvHead& head, const Query* queries, int n_queries, int begin,
                                int head_dim, float scale, float cap, float* results, bool apart) {
  const size_t stride = static_cast<size_t>(head.v_stride) + 2;
  for (int i = 0; i < n_queries;) {
    int n = 0;  // of the next ones, that have
    while (i + n < n_queries && queries[i + n].pos >= begin &&
           queries[i + n].first < begin + kAttentionChunk) {
      ++n;
    }
    if (n == 0) {
      if (apart) sums_of(results, i, head.v_stride)[1] = kUnseen;
      ++i;
    }
    for (int groups = (n + kMostQueries - 1) / kMostQueries; groups > 0; --groups) {
      const int some = (n + groups - 1) / groups;
      attend_chunk_of<Kv, kMostQueries>(some, head, queries + i, begin, head_dim, scale, cap,
                                        results + i * stride, apart);
      i += some;
      n -= some;
    }
  }
}

inline void attend_chunk_to_all(const KvHead& head, const Query* queries, int n_queries, int begin,
                                int head_dim, float scale, float cap, float* results, bool apart) {
  if (head.type == KvType::kInt8) {
    attend_chunk_of_all<KvInt8>(head, queries, n_queries, begin, head_dim, scale, cap, results,
                                apart);
  } else {
    attend_chunk_of_all<KvFp16>(head, queries, n_queries, begin, head_dim, scale, cap, results,
                                apart);
  }
}

inline void begin_result(float* result, int v_stride) {
  __builtin_memset(result, 0, (static_cast<size_t>(v_stride) + 2) * sizeof(float));
  result[v_stride] = -__builtin_inff();
}

inline void finish_result(const float* result, int v_stride, int head_dim, float* out) {
  const V inverse = set1(1.0f / result[v_stride + 1]);
  for (int d = 0; d < head_dim; d += 16) {
    store_n(out + d, mul(load(result + d), inverse), head_dim - d < 16 ? head_dim - d : 16);
  }
}

void attention(const KvHead& head, const Query* queries, int n_queries, int head_dim, float scale,
               float cap, float* scratch) {
  const size_t stride = static_cast<size_t>(head.v_stride) + 2;
  int first = queries[0].first, last = 0;
  for (int i = 0; i < n_queries; ++i) {
    begin_result(scratch + i * stride, head.v_stride);
    first = queries[i].first < first ? queries[i].first : first;
    last = queries[i].pos > last ? queries[i].pos : last;
  }
  for (int begin = first / kAttentionChunk * kAttentionChunk; begin <= last;
       begin += kAttentionChunk) {
    attend_chunk_to_all(head, queries, n_queries, begin, head_dim, scale, cap, scratch, false);
  }
  for (int i = 0; i < n_queries; ++i) {
    finish_result(scratch + i * stride, head.v_stride, head_dim, queries[i].out);
  }
}

void attend_chunks(const KvHead& head, const Query* queries, int n_queries, int head_dim,
                   float scale, float cap, int from, int to, float* results) {
  const size_t of_chunk = static_cast<size_t>(n_queries) * (head.v_stride + 2);
  for (int chunk = from; chunk < to; ++chunk, results += of_chunk) {
    attend_chunk_to_all(head, queries, n_queries, chunk * kAttentionChunk, head_dim, scale, cap,
                        results, true);
  }
}

void join_chunks(const float* results, size_t stride, int n_chunks, int v_stride, int head_dim,
                 float* scratch, float* out) {
  begin_result(scratch, v_stride);
  for (int chunk = 0; chunk < n_chunks; ++chunk, results += stride) {
    const float* sums = results + v_stride;
    if (sums[1] == kUnseen) continue;
    const Join join = join_sums<1>(scratch, v_stride, &sums[0], &sums[1]);
    for (int d = 0; d < v_stride; d += 16) {
      store(scratch + d, joined(scratch + d, load(results + d), join, 0, 1));
    }
  }
  finish_result(scratch, v_stride, head_dim, out);
}

}  // namespace
}  // namespace specbound
