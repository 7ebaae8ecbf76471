// The INT8 product of a few rows, by int8_formula.h: weights from TilesI8, rows from RowsI8, and
// one epilogue or another for the sums (projections.cu).
//
// A unit is 32 outputs, two tiles. A warp has one of the S = k_chunks(n_in) chunks of a unit and
// runs its blocks in ascending order; eight warps are 8/S units of S chunks. Their sums meet in
// shared memory, and there the chunks are added in order. Rows are the columns of the tensor-core
// product: 1..8 run the same instructions, 9..16 those of a second panel too, on the same weights.
#pragma once

#include <type_traits>

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

// The unit of this warp, of eight that share a matrix.
SPECBOUND_DEVICE int unit_of_warp(int n_in) {
  const int chunks = k_chunks(n_in);
  return static_cast<int>(blockIdx.x) * (kUnitWarps / chunks) + warp_index() % kUnitWarps / chunks;
}

// How much a kernel keeps on its way, for the registers that it has: of weights so many blocks
// fewer than their form might, and blocks of rows, if they divide those.
struct Depth {
  int fewer, rows;
};

// Blocks take n slots in turn: the first that slot `slot` has, from block `skip` on.
SPECBOUND_DEVICE int first_in_slot(int slot, int n, int skip) {
  return slot + (skip + n - 1 - slot) / n * n;
}

// One warp's chunk of the weights of a unit of kTiles, as lanes read them: the blocks on their way.
// Of a block a lane has its values and the scales of outputs g and g + 8 of each tile. A loop takes
// kTurn blocks at once: 256 k where a form is read so. The first turn of a chunk that begins inside
// of them begins before it: what lies there is neither read nor computed, for of an infinite scale
// zeros would make NaN.
template <class Form, int kAhead, int kTiles = 2>
struct WeightStream {
  static constexpr int kTurn = Form::kBy256 ? kPartsOf256 : kAhead;
  static_assert(kTurn % kAhead == 0);
  const typename Form::Stored* q[kTiles];  // of the turn
  const uint32_t *d[kTiles], *d2[kTiles];  // of the turn; of the tile
  int block, left;  // the first of the turn, of the tile; how many there are from it on
  int skip;         // how many of these lie before the chunk
  typename Form::Values values[kAhead][kTiles] = {};
  typename Form::Scales scales[kAhead][kTiles] = {};
  Word2 next_d2[kTiles] = {};  // by 256: of the next turn

  SPECBOUND_DEVICE WeightStream(const TilesI8& w, int unit, const Chunk& chunk)
      : block(Form::kBy256 ? chunk.begin / kPartsOf256 * kPartsOf256 : chunk.begin),
        left(chunk.end - block),
        skip(chunk.begin - block) {
    const int lane = lane_index(), n_blocks = w.n_in / kQuantBlock, tile = kTiles * unit;
    // A unit that has but one of two tiles computes it twice.
    const int second = kTiles == 2 && tile + 1 < tiles_of(w.n_out) ? 1 : 0;
    const size_t first = static_cast<size_t>(tile) * n_blocks + block;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const size_t at = first + static_cast<size_t>(i * second) * n_blocks;
      q[i] = lane_values<typename Form::Stored>(w.q, at);
      d[i] = reinterpret_cast<const uint32_t*>(w.d) + at * 8 + lane / 4;
      d2[i] = d2_of_tile<Form>(w, tile + i * second);
    }
  }

  SPECBOUND_DEVICE void fetch(int slot, int ahead) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      load_once_if(ahead < left, q[i] + ahead * kWarp, values[slot][i]);
      Form::load(ahead < left, d[i] + ahead * 8, d2[i], block + ahead, scales[slot][i]);
    }
  }
  SPECBOUND_DEVICE void fetch_d2(int ahead) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      Form::load_d2(ahead < left, d2[i], block + ahead, next_d2[i]);
    }
  }
  SPECBOUND_DEVICE void start() {
    if constexpr (Form::kBy256) fetch_d2(0);
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) fetch(slot, first_in_slot(slot, kAhead, skip));
  }
  SPECBOUND_DEVICE void advance(int blocks) {
    block += blocks;
    left -= blocks;
    skip = 0;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      q[i] += blocks * kWarp;
      d[i] += blocks * 8;
    }
  }
};

// The same of the rows, kAhead blocks of them: 8 bytes (row g of a panel) and two scales (rows 2t
// and 2t + 1). Rows from n_rows on are zero and not read.
template <int kPanels, int kAhead>
struct RowStream {
  static constexpr bool kOneRow = false;
  const Word2 *q, *d;
  int panel_blocks, n_rows;
  Word2 values[kAhead][kPanels] = {}, scales[kAhead][kPanels] = {};

  SPECBOUND_DEVICE RowStream(const RowsI8& x, int n_rows, int block)
      : q(reinterpret_cast<const Word2*>(x.q) + static_cast<size_t>(block) * kWarp + lane_index()),
        d(reinterpret_cast<const Word2*>(x.d) + static_cast<size_t>(block) * 4 + lane_index() % 4),
        panel_blocks(x.n_in / kQuantBlock),
        n_rows(n_rows) {}

  SPECBOUND_DEVICE void fetch(int slot, int ahead, int left) {
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      const int block = i * panel_blocks + ahead;
      const int row = kPanelRows * i + lane_index() / 4,
                pair = kPanelRows * i + 2 * (lane_index() % 4);
      load_row_if(row < n_rows && ahead < left, q + block * kWarp, values[slot][i]);
      load_row_if(pair < n_rows && ahead < left, d + block * 4, scales[slot][i]);
    }
  }
  SPECBOUND_DEVICE void advance(int blocks) {
    q += blocks * kWarp;
    d += blocks * 4;
  }
};

template <int kPanels, int kAhead>
SPECBOUND_DEVICE RowStream<kPanels, kAhead> row_stream(const RowsI8& x, int n_rows, int block) {
  return {x, n_rows, block};
}

// A quantized row in the block's shared memory: (n_in/32, 32) and (n_in/32), 8-byte aligned.
struct SharedRow {
  int32_t n_in;
  const int8_t* q;
  const float* d;
};

// The same of such a row: row 0 of a pass of one.
template <int kAhead>
struct SharedRowStream {
  static constexpr bool kOneRow = true;
  const Word2* q;
  const float* d;
  Word2 values[kAhead][1], scales[kAhead][1];

  SPECBOUND_DEVICE SharedRowStream(const SharedRow& x, int block)
      : q(reinterpret_cast<const Word2*>(x.q) + 4 * block + lane_index() % 4), d(x.d + block) {}

  SPECBOUND_DEVICE void fetch(int slot, int ahead, int left) {
    const bool of_row = lane_index() / 4 == 0, of_scale = lane_index() % 4 == 0;
    values[slot][0] = of_row && ahead < left ? q[4 * ahead] : Word2{0, 0};
    scales[slot][0] = {of_scale && ahead < left ? bits_of(d[ahead]) : 0, 0};
  }
  SPECBOUND_DEVICE void advance(int blocks) {
    q += 4 * blocks;
    d += blocks;
  }
};
template <int kPanels, int kAhead>
SPECBOUND_DEVICE SharedRowStream<kAhead> row_stream(const SharedRow& x, int, int block) {
  static_assert(kPanels == 1);
  return {x, block};
}

// acc[panel][tile] = the sum over the chunk, its blocks ascending, laid out as the tensor cores do.
// `w` has started. Rows come from nearer than weights: kRowsAhead may be less than kAhead, which it
// divides.
template <int kPanels, int kRowsAhead, class Form, int kAhead, class Rows>
SPECBOUND_DEVICE void chunk_sums(WeightStream<Form, kAhead>& w, const Rows& x, int n_rows,
                                 float (&acc)[kPanels][2][4]) {
  constexpr int kTurn = WeightStream<Form, kAhead>::kTurn;
  auto rows = row_stream<kPanels, kRowsAhead>(x, n_rows, w.block);
  constexpr bool kOneRow = decltype(rows)::kOneRow;
#pragma unroll
  for (int slot = 0; slot < kRowsAhead; ++slot) {
    rows.fetch(slot, first_in_slot(slot, kRowsAhead, w.skip), w.left);
  }
  const auto turn = [&]<bool kSkips>(std::bool_constant<kSkips>) {
    [[maybe_unused]] Float4 by_256[2];
    if constexpr (Form::kBy256) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) by_256[tile] = Form::floats_of(w.next_d2[tile]);
      w.fetch_d2(kTurn);
    }
#pragma unroll
    for (int i = 0; i < kTurn; ++i) {
      if (i >= w.left) break;
      if (kSkips && i < w.skip) continue;
      const int slot = i % kAhead;
      Word4 weights[2];
      BlockFactors factors[2];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        weights[tile] = Form::operand(w.values[slot][tile]);
        if constexpr (Form::kBy256) {
          factors[tile] = Form::factors(w.scales[slot][tile], by_256[tile]);
        } else {
          factors[tile] = Form::factors(w.scales[slot][tile]);
        }
      }
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        const Word2 q = rows.values[i % kRowsAhead][panel], d = rows.scales[i % kRowsAhead][panel];
        Float2 less_mins{};
        if constexpr (Form::kHasMins) less_mins = less_mins_of(q, d);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          add_block<Form, kOneRow>(weights[tile], factors[tile], q, d, less_mins, acc[panel][tile]);
        }
      }
      w.fetch(slot, i + kAhead);
      rows.fetch(i % kRowsAhead, i + kRowsAhead, w.left);
    }
    w.advance(kTurn);
    rows.advance(kTurn);
  };
  // A copy of the code: to ask this of each block would take the loop a tenth more instructions.
  if constexpr (Form::kBy256) {
    if (w.skip > 0) turn(std::true_type{});
  }
#pragma unroll 1
  while (w.left > 0) turn(std::false_type{});
}

// The sums of this warp's chunk into `sums` (16 rows, kSumStride), rows [0, 8 kPanels).
template <int kPanels, int kRowsAhead, class Form, int kAhead, class Rows>
SPECBOUND_DEVICE void store_chunk(WeightStream<Form, kAhead>& w, const Rows& x, int n_rows,
                                  float* sums) {
  float acc[kPanels][2][4] = {};
  chunk_sums<kPanels, kRowsAhead>(w, x, n_rows, acc);
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

// Blocks of weights on their way.
template <class Form, Depth kDepth>
inline constexpr int kBlocksAhead = Form::kAhead > kDepth.fewer ? Form::kAhead - kDepth.fewer : 1;

// The sums of unit `unit` over a chunk, which this warp alone computes, whatever the form: one
// branch. Waits for the kernels before this one, which make the rows, when weights are on their
// way. kPanels: that rows may fill.
template <int kPanels, Depth kDepth, class Rows>
SPECBOUND_DEVICE void unit_chunk(const TilesI8& w, int unit, const Chunk& chunk, const Rows& x,
                                 int n_rows, float* sums) {
  as_form(w.type, [&]<class Any>(Any) {
    using Form = By256<Any, kPanels == 1 && kDepth.fewer == 0>;
    constexpr int kAhead = kBlocksAhead<Form, kDepth>;
    constexpr int kRows = kDepth.rows < kAhead ? kDepth.rows : kAhead;
    constexpr int kRowsAhead = kAhead % kRows == 0 ? kRows : 1;
    WeightStream<Form, kAhead> stream(w, unit, chunk);
    stream.start();
    wait_for_previous();
    if (kPanels > 1 && n_rows > kPanelRows) {
      store_chunk<kPanels, kRowsAhead>(stream, x, n_rows, sums);
    } else {
      store_chunk<1, kRowsAhead>(stream, x, n_rows, sums);
    }
  });
}

// The weights that unit_chunk() asks for first, on their way to L2 already.
template <Depth kDepth>
SPECBOUND_DEVICE void prefetch_chunk(const TilesI8& w, int unit, const Chunk& chunk) {
  as_form(w.type, [&]<class Form>(Form) {
    const int length = chunk.end - chunk.begin, ahead = kBlocksAhead<Form, kDepth>;
    const int blocks = length < ahead ? length : ahead;
    for (int tile = 2 * unit; tile < 2 * unit + 2 && tile < tiles_of(w.n_out); ++tile) {
      const size_t first = static_cast<size_t>(tile) * (w.n_in / kQuantBlock) + chunk.begin;
      constexpr int kBytes = kWarp * sizeof(typename Form::Stored);
      prefetch_by_warp(w.q + first * kBytes, blocks * kBytes);
      prefetch_by_warp(w.d + first * kTileOutputs, blocks * kTileOutputs * sizeof(uint16_t));
    }
  });
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
