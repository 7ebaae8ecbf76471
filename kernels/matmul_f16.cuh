// The FP16 product of a few rows: weights from TilesF16, rows from RowsF16. Units, chunks and what
// becomes of the sums are those of INT8 (matmul_int8.cuh); blocks are of 32 k here too.
//
// The tensor core adds up 16 products only, from 0: it truncates where FP32 additions round, and
// the fewer of its sums there are, the nearer the error stays to that of the CPU's 32 lanes.
#pragma once

#include "matmul_int8.cuh"

namespace specbound::kernels {

// sum += W x for a tile of 16 outputs and a panel of 8 rows over 32 k. w: the words of the tile for
// k 0..15 and 16..31; x: those of the panel (RowsF16). What is left of x, being small, is added up
// by itself.
SPECBOUND_DEVICE void add_block_f16(const Word4 (&w)[2], const Word4 (&x)[2], float (&acc)[4]) {
  float sum[2][4] = {}, rest[4] = {};
  mma_16x8x16(rest, w[0], {x[0].z, x[0].w});
  mma_16x8x16(rest, w[1], {x[1].z, x[1].w});
#pragma unroll
  for (int half = 0; half < 2; ++half) mma_16x8x16(sum[half], w[half], {x[half].x, x[half].y});
#pragma unroll
  for (int i = 0; i < 4; ++i) acc[i] = acc[i] + ((sum[0][i] + sum[1][i]) + rest[i]);
}

// acc[panel][tile] = the sum over a chunk, in units of the rows' scales, laid
// out as the tensor cores do. w: this lane's first word of the unit; apart: words between its tiles
// (0: it has one, which is then computed twice).
template <int kPanels>
SPECBOUND_DEVICE void chunk_sums(const Word4* w, size_t apart, const RowsF16& x, const Chunk& chunk,
                                 float (&acc)[kPanels][2][4]) {
  constexpr int kBlockWords = 2 * kWarp;
  const size_t panel = static_cast<size_t>(x.n_in / kQuantBlock) * kBlockWords;
  const size_t first = static_cast<size_t>(chunk.begin) * kBlockWords;
  const Word4* rows = reinterpret_cast<const Word4*>(x.x) + first + lane_index();
  w += first;
  Word4 weights[2][2];  // of the tiles: the next block, on its way while others' warps compute
  const auto fetch = [&] {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      weights[tile][0] = load_once(w + tile * apart);
      weights[tile][1] = load_once(w + tile * apart + kWarp);
    }
    w += kBlockWords;
  };
  fetch();
  wait_for_previous();
#pragma unroll 1
  for (int left = chunk.end - chunk.begin; left > 0; --left) {
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      const Word4 parts[2] = {rows[i * panel], rows[i * panel + kWarp]};
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) add_block_f16(weights[tile], parts, acc[i][tile]);
    }
    rows += kBlockWords;
    if (left > 1) fetch();
  }
}

// This warp's chunk of a unit's sums into `sums` (16 rows, kSumStride), rows [0, 8 kPanels).
template <int kPanels>
SPECBOUND_DEVICE void store_chunk(const Word4* w, size_t apart, const RowsF16& x,
                                  const Chunk& chunk, float* sums) {
  float acc[kPanels][2][4] = {};
  chunk_sums<kPanels>(w, apart, x, chunk, acc);
  const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = kPanelRows * panel + 2 * t + i % 2;
      const float scale = x.scale[row];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        const int output = kTileOutputs * tile + g + 8 * (i / 2);
        sums[row * kSumStride + output] = acc[panel][tile][i] * scale;
      }
    }
  }
}

// The sums of a chunk of unit `unit`, which this warp alone computes.
template <int, Depth>
SPECBOUND_DEVICE void unit_chunk(const TilesF16& w, int unit, const Chunk& chunk, const RowsF16& x,
                                 int n_rows, float* sums) {
  const size_t tile_words = static_cast<size_t>(x.n_in / kHalfBlock) * kWarp;
  const Word4* first = reinterpret_cast<const Word4*>(w.w) + 2 * unit * tile_words + lane_index();
  const size_t apart = 2 * unit + 1 < tiles_of(w.n_out) ? tile_words : 0;
  if (n_rows > kPanelRows) {
    store_chunk<2>(first, apart, x, chunk, sums);
  } else {
    store_chunk<1>(first, apart, x, chunk, sums);
  }
}

}  // namespace specbound::kernels
