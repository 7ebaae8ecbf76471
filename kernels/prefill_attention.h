// Attention of a prefill chunk: up to 512 rows against everything in the cache before and among
// them, on FP16 tensor cores. K and V go to the cache with the bits of a decode pass; what rows
// attend to is close to, not the same as, what a decode pass computes, but the same in every run,
// however rows are cut into chunks.
//
// Queries and softmax weights are each two FP16 numbers, which together hold 22 bits: with one, the
// error would be that of FP16, hundreds of times the CPU's. K and V are FP16 as they are: INT8 ones
// times their scales are not, and rows that read those take decode's kernels (attention.h).
#pragma once

#include "attention.h"

namespace specbound::kernels {

inline constexpr int kQueryTile = 16;  // rows of a tensor-core operand

// Dimensions of a head as prefill_attention computes them: padded with zeros.
constexpr int prefill_head_dim(int head_dim) {
  return head_dim <= 64    ? 64
         : head_dim <= 80  ? 80
         : head_dim <= 96  ? 96
         : head_dim <= 128 ? 128
                           : 256;
}

// Both kernels. store_heads finishes queries into q_tiles, keys and values into the cache, of any
// type; prefill_attention reads FP16.
struct PrefillAttention {
  const Pass* pass;  // 1 <= n_rows <= max_rows, pos + n_rows <= kv.n_ctx
  Heads heads;
  int max_rows;        // 1..512, sizes the grid
  bool store_queries;  // no: keys and values only, the rest may be null
  // (n_heads, row tiles, D/16, 2, 32 lanes, 8) FP16, 16-byte aligned, D the padded head_dim:
  // tiles of 16 rows by 16 dimensions as mma_16x8x16 takes them, the upper halves of q / q_scale,
  // then what those left.
  uint16_t* q_tiles;
  float* q_scale;   // (n_heads, row tiles, 16), a power of two for each row
  float* attended;  // (n_rows, q_dim), 8-byte aligned; a row that sees an infinite or NaN value is
                    // NaN
};
void store_heads(const PrefillAttention& p, Stream stream);
void prefill_attention(const PrefillAttention& p, Stream stream);

}  // namespace specbound::kernels
