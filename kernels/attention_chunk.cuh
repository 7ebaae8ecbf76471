// What a block of decode attention works on: a chunk's keys and values in its shared memory, as the
// cache has them, those of the pass among them.
#pragma once

#include "attention.h"
#include "finish_head.cuh"

namespace specbound::kernels {

inline constexpr int kChunkThreads = 256;
inline constexpr int kChunkWarps = kChunkThreads / kWarp;
inline constexpr int kInFlight = 4;  // 16-byte loads of a thread
inline constexpr int kPositions = kAttentionChunk;
inline constexpr int kKeyBlocks = kPositions / kKeyBlock;  // of the cache, in a chunk
inline constexpr int kTail = kKeyBlock;                    // places of a round in the next chunk

// What a block works on, and its shared memory.
template <class Kv>
struct Chunk {
  using Number = typename Kv::Number;

  int kv_head, index, begin;  // begin: its first position
  int pos, n_queries;  // of the pass; query i is row i / group, head i % group of the K/V head
  int group;           // queries of a row
  int staged_keys;     // places in use, rounded up to whole key blocks
  Number* keys;        // (4) key blocks with a padding between two
  Number* values;      // (4) blocks of values: their own memory, or that of the keys
  float* q;            // (16, head_dim); before, a row for each warp to work in
  float* weights;      // (staged queries, 64)
  // Of a tree. Keys lie at their own places up to `bent`, from there on where paths say: in this
  // chunk or among the first `tail` places of the next, which are staged too, as one more block.
  const RowTree* tree;
  int root, bent, tail;  // root: its position. bent: 64 in chunks before the root's
};

// Between the beginnings of two staged key blocks, in numbers: the 16 keys of a dimension in blocks
// that follow each other lie in different banks, whatever scales are between them.
template <class Kv>
constexpr int key_block_stride(int head_dim) {
  return block_numbers<Kv>(head_dim) + 16;
}

// Of keys, or values.
template <class Kv>
constexpr size_t staged_bytes(int head_dim, bool tree) {
  const int blocks = kKeyBlocks + (tree ? 1 : 0);
  const int numbers = blocks * block_numbers<Kv>(head_dim) + kKeyBlocks * 16;
  return numbers * sizeof(typename Kv::Number);
}

// The staged key, and value, of a place of the chunk, and of one of its tail.
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> staged_key(const Chunk<Kv>& c, int head_dim, int place) {
  return key_of_block<Kv>(c.keys + place / kKeyBlock * key_block_stride<Kv>(head_dim), head_dim,
                          place % kKeyBlock);
}
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> staged_value(const Chunk<Kv>& c, int head_dim, int place) {
  if constexpr (Kv::kScaled) {
    return value_of_block<Kv>(c.values + place / kKeyBlock * block_numbers<Kv>(head_dim), head_dim,
                              place % kKeyBlock);
  } else {
    return {c.values + place * head_dim, 1, nullptr};
  }
}

template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> tail_key(const Chunk<Kv>& c, int head_dim, int at) {
  return key_of_block<Kv>(c.keys + kKeyBlocks * key_block_stride<Kv>(head_dim), head_dim, at);
}
template <class Kv>
SPECBOUND_DEVICE KvRow<Kv> tail_value(const Chunk<Kv>& c, int head_dim, int at) {
  return value_of_block<Kv>(c.values + kKeyBlocks * block_numbers<Kv>(head_dim), head_dim, at);
}

// The position of row `row`. Kernels without a tree know at compile time that rows follow each
// other.
template <bool kTree, class Kv>
SPECBOUND_DEVICE int position_of(const Chunk<Kv>& c, int row) {
  return kTree ? c.root + c.tree->depth[row] : c.pos + row;
}

// Keys, or values, of the places in use as the cache has them: they lie together, and where
// `stride` says so, in blocks of `block` numbers, that far apart when they are staged. New ones may
// be any: they are not there yet.
template <class Number>
SPECBOUND_DEVICE void stage(const Number* cache, int numbers, int block, int stride,
                            Number* staged) {
  constexpr int kOfWord = sizeof(Word4) / sizeof(Number);
  const auto* from = reinterpret_cast<const Word4*>(cache);
  auto* to = reinterpret_cast<Word4*>(staged);
  const int words = numbers / kOfWord, of_block = block / kOfWord;
  const int padding = (stride - block) / kOfWord;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < words;
       first += kInFlight * kChunkThreads) {
    Word4 held[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kChunkThreads;
      held[i] = at < words ? from[at] : Word4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kChunkThreads;
      const int before = (at >= of_block) + (at >= 2 * of_block) + (at >= 3 * of_block);
      if (at < words) to[at + before * padding] = held[i];
    }
  }
}
template <class Kv>
SPECBOUND_DEVICE void stage_keys(const Heads& heads, const Chunk<Kv>& c) {
  const int n = heads.head_dim, block = block_numbers<Kv>(n);
  stage(block_at<Kv>(heads.kv.k, heads.kv.n_ctx, n, c.kv_head, c.begin),
        c.staged_keys / kKeyBlock * block, block, key_block_stride<Kv>(n), c.keys);
}
template <class Kv>
SPECBOUND_DEVICE void stage_values(const Heads& heads, const Chunk<Kv>& c) {
  const int n = heads.head_dim, block = block_numbers<Kv>(n);
  stage(block_at<Kv>(heads.kv.v, heads.kv.n_ctx, n, c.kv_head, c.begin),
        c.staged_keys / kKeyBlock * block, block, block, c.values);
}

// The pass's keys of this chunk go to the cache, and are staged like all others: one of them by
// each warp.
template <bool kTree, class Kv>
SPECBOUND_DEVICE void add_keys(const Heads& heads, const Chunk<Kv>& c, int first, int end) {
  const int n = heads.head_dim;
  float* y = c.q + warp_index() * n;
#pragma unroll 1
  for (int at = first + warp_index(); at < end; at += kChunkWarps) {
    const int row = at - c.pos;
    finish_key(heads, key_of(heads, row, c.kv_head), c.kv_head, position_of<kTree>(c, row), y);
    store_row<Kv>(
        n, [&](int d) { return y[d]; }, key_at<Kv>(heads.kv, n, c.kv_head, at),
        staged_key(c, n, at - c.begin));
    __syncwarp();  // y may be written
  }
}
// The same of values.
template <class Kv>
SPECBOUND_DEVICE void add_values(const Heads& heads, const Chunk<Kv>& c, int first, int end) {
  const int n = heads.head_dim;
#pragma unroll 1
  for (int at = first + warp_index(); at < end; at += kChunkWarps) {
    const float* v = key_of(heads, at - c.pos, c.kv_head) + kv_dim_of(heads);
    store_row<Kv>(
        n, [&](int d) { return finished_value(heads, v, c.kv_head, d); },
        value_at<Kv>(heads.kv, n, c.kv_head, at), staged_value(c, n, at - c.begin));
  }
}

// What the cache has of a row, for another place.
template <class Kv>
SPECBOUND_DEVICE void copy_row(int head_dim, const KvRow<Kv>& from, const KvRow<Kv>& to) {
  for (int d = lane_index(); d < head_dim; d += kWarp) to.number(d) = from.number(d);
  const int scales = kv_scales(Kv::kScaled, head_dim);
#pragma unroll 1
  for (int b = lane_index(); b < scales; b += kWarp) to.scale(b) = from.scale(b);
}

// K of the tail. The block of the next chunk may be storing those of the pass's own rows just now:
// they are finished here once more.
template <class Kv>
SPECBOUND_DEVICE void stage_tail_keys(const Heads& heads, const Chunk<Kv>& c) {
  const int n = heads.head_dim;
  float* y = c.q + warp_index() * n;
#pragma unroll 1
  for (int i = warp_index(); i < c.tail; i += kChunkWarps) {
    const int place = c.begin + kPositions + i, row = place - c.pos;
    const KvRow<Kv> to = tail_key(c, n, i);
    if (row >= 0) {
      const float* k = key_of(heads, row, c.kv_head);
      finish_key(heads, k, c.kv_head, position_of<true>(c, row), y);
      store_row<Kv>(
          n, [&](int d) { return y[d]; }, to);
      __syncwarp();  // y may be written
    } else {
      copy_row(n, key_at<Kv>(heads.kv, n, c.kv_head, place), to);
    }
  }
}

template <class Kv>
SPECBOUND_DEVICE void stage_tail_values(const Heads& heads, const Chunk<Kv>& c) {
  const int n = heads.head_dim;
  for (int i = warp_index(); i < c.tail; i += kChunkWarps) {
    const int place = c.begin + kPositions + i, row = place - c.pos;
    const KvRow<Kv> to = tail_value(c, n, i);
    if (row >= 0) {
      const float* v = key_of(heads, row, c.kv_head) + kv_dim_of(heads);
      store_row<Kv>(
          n, [&](int d) { return finished_value(heads, v, c.kv_head, d); }, to);
    } else {
      copy_row(n, value_at<Kv>(heads.kv, n, c.kv_head, place), to);
    }
  }
}

// Where in the chunk, or behind it, a row with this path finds `key` >= c.bent, which it sees.
template <class Kv>
SPECBOUND_DEVICE int place_of(const Chunk<Kv>& c, uint64_t path, int key) {
  const int root = c.root - c.begin;
  return root + slot_at(path, key - root);
}

}  // namespace specbound::kernels
