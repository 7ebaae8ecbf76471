// The INT8 product of a few rows, by int8_formula.h: weights from TilesI8, rows from RowsI8, and
// one epilogue or another for the sums (projections.cu).
//
// A unit is 32 outputs, two tiles. A warp has one of the S = k_chunks(n_in) chunks of a unit and
// runs its blocks in ascending order; eight warps are 8/S units of S chunks. Their sums meet in
// shared memory, and there the chunks are added in order. Rows are the columns of the tensor-core
// product: 1..8 run the same instructions, 9..16 those of a second panel too, on the same weights.
#pragma once

#include "intrinsics.cuh"
#include "launch.cuh"
#include "layouts.h"
#include "weight_forms.cuh"

namespace specbound::kernels {

inline constexpr int kUnitOutputs = 2 * kTileOutputs;
inline constexpr int kUnitWarps = 8;  // that share 8/S units
// Sums of a warp: (16 rows, 32 outputs), rows so far apart that no two lanes meet in a bank when
// they write eight outputs of four rows, or read 32 outputs of one.
inline constexpr int kSumStride = 36;
inline constexpr int kSumsOfWarp = kMaxDecodeRows * kSumStride;
inline constexpr size_t kSumBytes = kUnitWarps * kSumsOfWarp * sizeof(float);

constexpr int units_of(int n_out) {
  return (n_out + kUnitOutputs - 1) / kUnitOutputs;
}

// A chunk of K, in blocks.
struct Chunk {
  int begin, end;
};

// That of this warp: k_chunk_begin() in 32 bits: n_in is below 2^31.
SPECBOUND_DEVICE Chunk chunk_of_warp(int n_in) {
  const unsigned blocks = static_cast<unsigned>(n_in / kQuantBlock);
  const unsigned chunks = static_cast<unsigned>(k_chunks(n_in));
  const unsigned chunk = static_cast<unsigned>(warp_index()) % chunks;
  return {static_cast<int>(blocks * chunk / chunks),
          static_cast<int>(blocks * (chunk + 1) / chunks)};
}

// Where a lane reads in a chunk: a block is its values and the scales of outputs g and g + 8 of
// each tile, 8 bytes (row g) and two scales (rows 2t, 2t + 1) of each panel.
template <class Form, int kPanels>
struct ChunkReader {
  const typename Form::Values* q[2];
  const uint32_t* d[2];
  const Word2* d2[2];  // of the tile
  int block;           // that is read next, of the tile
  const Word2* xq[kPanels];
  const Word2* xd[kPanels];
};

template <class Form, int kPanels>
SPECBOUND_DEVICE ChunkReader<Form, kPanels> chunk_reader(const TilesI8& w, const RowsI8& x,
                                                         int unit, int begin) {
  const int lane = lane_index(), n_tiles = (w.n_out + kTileOutputs - 1) / kTileOutputs;
  const size_t n_blocks = static_cast<size_t>(w.n_in / kQuantBlock);
  ChunkReader<Form, kPanels> reader;
  reader.block = begin;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // A unit of one tile computes it twice.
    const int tile = 2 * unit + i < n_tiles ? 2 * unit + i : 2 * unit;
    const size_t block = tile * n_blocks + begin;
    reader.q[i] = reinterpret_cast<const typename Form::Values*>(w.q) + block * kWarp + lane;
    reader.d[i] = reinterpret_cast<const uint32_t*>(w.d) + block * 8 + lane / 4;
    reader.d2[i] = d2_of_tile<Form>(w, tile);
  }
#pragma unroll
  for (int i = 0; i < kPanels; ++i) {
    const size_t block = i * n_blocks + begin;
    reader.xq[i] = reinterpret_cast<const Word2*>(x.q) + block * kWarp + lane;
    reader.xd[i] = reinterpret_cast<const Word2*>(x.d) + block * 4 + lane % 4;
  }
  return reader;
}

// acc[panel][tile] = the sum over `left` blocks, ascending, laid out as the tensor cores do.
template <class Form, int kPanels>
SPECBOUND_DEVICE void chunk_sums(ChunkReader<Form, kPanels> at, int left,
                                 float (&acc)[kPanels][2][4]) {
  constexpr int kAhead = Form::kAhead;
  typename Form::Values values[kAhead][2];
  typename Form::Scales scales[kAhead][2];
  const auto fetch = [&](int slot, int block) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      values[slot][tile] = load_once_if(block < left, at.q[tile] + block * kWarp);
      scales[slot][tile] =
          Form::load(block < left, at.d[tile] + block * 8, at.d2[tile], at.block + block);
    }
  };
#pragma unroll
  for (int slot = 0; slot < kAhead; ++slot) fetch(slot, slot);
  for (; left > 0; left -= kAhead) {
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
      if (slot >= left) break;
      Word4 weights[2];
      BlockFactors factors[2];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        weights[tile] = Form::operand(values[slot][tile]);
        factors[tile] = Form::factors(scales[slot][tile]);
      }
#pragma unroll
      for (int i = 0; i < kPanels; ++i) {
        const Word2 q = at.xq[i][slot * kWarp], d = at.xd[i][slot * 4];
        Float2 less_sums{};
        if constexpr (Form::kHasMins) less_sums = less_row_sums(q);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          add_block<Form>(weights[tile], factors[tile], q, d, less_sums, acc[i][tile]);
        }
      }
      fetch(slot, slot + kAhead);
    }
    at.block += kAhead;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      at.q[i] += kAhead * kWarp;
      at.d[i] += kAhead * 8;
    }
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      at.xq[i] += kAhead * kWarp;
      at.xd[i] += kAhead * 4;
    }
  }
}

// The same of a chunk of a unit, whatever the form: one branch.
template <int kPanels>
SPECBOUND_DEVICE void chunk_sums(const TilesI8& w, const RowsI8& x, int unit, const Chunk& chunk,
                                 float (&acc)[kPanels][2][4]) {
  const int left = chunk.end - chunk.begin;
  as_form(w.type, [&]<class Form>(Form) {
    chunk_sums(chunk_reader<Form, kPanels>(w, x, unit, chunk.begin), left, acc);
  });
}

// This warp's chunk of a unit's sums into `sums` (16 rows, kSumStride), rows [0, 8 kPanels).
template <int kPanels>
SPECBOUND_DEVICE void store_chunk(const TilesI8& w, const RowsI8& x, int unit, const Chunk& chunk,
                                  float* sums) {
  float acc[kPanels][2][4] = {};
  chunk_sums(w, x, unit, chunk, acc);
  const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = kPanelRows * panel + 2 * t + i % 2;
        const int output = kTileOutputs * tile + g + 8 * (i / 2);
        sums[row * kSumStride + output] = acc[panel][tile][i];
      }
    }
  }
}

// The sums of unit `unit` over a chunk, which this warp alone computes.
SPECBOUND_DEVICE void unit_chunk(const TilesI8& w, int unit, const Chunk& chunk, const RowsI8& x,
                                 int n_rows, float* sums) {
  if (n_rows > kPanelRows) {
    store_chunk<2>(w, x, unit, chunk, sums);
  } else {
    store_chunk<1>(w, x, unit, chunk, sums);
  }
}

// Row `row`, output `output` of a unit whose S chunks lie in `sums`: added in chunk order, from 0.
SPECBOUND_DEVICE float total_of(const float* sums, int chunks, int row, int output) {
  float total = 0.0f;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    total = total + sums[chunk * kSumsOfWarp + row * kSumStride + output];
  }
  return total;
}

}  // namespace specbound::kernels
