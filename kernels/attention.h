// Attention of a decode pass: heads finished (bias, norm, rope), keys and values into the cache,
// and softmax(cap(q K score_scale)) V over absolute chunks of positions. The bits are those of the
// CPU backend (engine/cpu: rmsnorm, rotate and store_kv of kernels_impl.h, attention_impl.h) and of
// a row alone.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

inline constexpr int kAttentionChunk = 64;  // positions; partial results are joined in chunk order
inline constexpr int kMaxHeadDim = 256;

// Queries, keys and values as the matmul left them, how to finish them, and where they go.
struct Heads {
  int n_heads, n_kv_heads;  // n_heads a multiple of n_kv_heads
  int head_dim;             // a multiple of 8 up to 256
  // (n_rows, q_dim + 2 kv_dim): q, k, v of a row side by side. q_dim is n_heads times head_dim,
  // kv_dim n_kv_heads times head_dim.
  const float* qkv;
  const float *q_bias, *k_bias, *v_bias;  // (q_dim), (kv_dim), (kv_dim), each or null
  const float *q_norm, *k_norm;           // (head_dim), each or null
  float norm_eps;
  // (kv.n_ctx, rope_dim): a pair's angle at both of its places, the sine negative at the first
  // (engine/cpu/rope.h).
  const float *cosine, *sine;
  bool interleaved;  // pairs are 2i and 2i + 1; otherwise they lie rope_dim/2 apart
  int rope_dim;      // first numbers of a head that are rotated: even, up to head_dim; 0: none
  float score_scale;
  float softcap;  // of scores: cap * tanh(x / cap); 0: none
  int window;     // keys that a row sees, itself among them; 0: all
  KvLayer kv;     // k and v 16-byte aligned
};

// Whether attend_chunks() can do combine_chunks()' work: trees over INT8 leave it no register.
constexpr bool can_join_chunks(bool tree, bool int8) {
  return !tree || !int8;
}

// All kernels of a pass. Positions below pass->pos are in the cache; those of the pass are written
// there. Every product is of K and V as the cache has them; keys that a row does not see are not
// touched. NaN and infinity do what they do on the CPU, but a NaN may have other bits.
struct Attend {
  const Pass* pass;  // n_rows 1..16, pos + n_rows <= context
  Heads heads;
  int context;          // a multiple of 64 up to kv.n_ctx: sizes the grid
  float* part_states;   // (16, n_heads, n_ctx/64, 2): largest score, sum of exp; 8-byte aligned
  float* part_outputs;  // (n_ctx/64, 16, q_dim), 8-byte aligned
  float* attended;      // (16, q_dim)
  RowsI8 quantized;  // q null: none. Else attended once more, quantized: n_in = q_dim, a multiple
                     // of 32; rows from n_rows to the end of the last panel become zero
  // Null: row r follows the row before it, at position pass->pos + r. Else 0 <= pass->slot <=
  // pass->pos, and K and V of the places from the root on are in the cache, or the pass's own.
  const RowTree* tree = nullptr;
  // Null: rows of one text. Else row r is at its position there, below context; heads.kv is
  // sequence 0's, the others' lie next_sequence halves apart, a multiple of 8. `tree` is null where
  // each row is of another text, else it is read for all rows, chains too.
  const RowSequences* sequences = nullptr;
  size_t next_sequence = 0;
  // attend_chunks() with the kernel before it (launch.cuh); false where that one, or one before it
  // that it overlaps, stores keys that these rows see.
  bool overlaps = true;
  // Null: combine_chunks() is launched next. Else (n_kv_heads), all zero: of each K/V head how many
  // chunks are done, and the block that finds it has the last one does combine_chunks()' work, with
  // the same bits; zeros are left behind. For few rows: that is one block for each K/V head, where
  // combine_chunks() has one for 128 outputs of a row. No `sequences`, and can_join_chunks().
  uint32_t* arrived = nullptr;
};
// Whether `arrived` serves a pass of one row better than combine_chunks(): not behind a long text,
// least of all where many queries share a K/V head.
bool better_joined(const Attend& p);
void attend_chunks(const Attend& p, Stream stream);  // heads.qkv, cache -> cache, parts
// In place of that for rows of several sequences; max_rows, 1..16, sizes the grid. One launch more
// with a tree: rows see each other's keys, which are stored before any is read.
void attend_side_by_side(const Attend& p, int max_rows, Stream stream);
void combine_chunks(const Attend& p, Stream stream);  // parts -> attended, quantized

void check_heads(const Heads& heads);  // the contracts above
void check_attend(const Attend& p);

}  // namespace specbound::kernels
