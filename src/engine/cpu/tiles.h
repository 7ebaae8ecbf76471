// INT8 operands in the layouts the kernels stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/weights.h"
#include "numerics/int8_formula.h"

namespace specbound {

template <class T>
constexpr T round_up(T n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

inline constexpr int kTileOutputs = 16;
inline constexpr int kPanelRows = 8;

// Of the layouts below: another one is another revision, for tiles are kept in files.
inline constexpr int kTileRevision = 1;

// A matrix of blocks repacked into tiles of 16 outputs: what a pass over 8 rows reads is read once,
// in order. In place Q8_0 costs 4x one row, in tiles 1.7x. The last tile is padded with zero
// outputs. All types keep the bits of their numbers and scales:
//
//   Q8_0  q (n_tiles, n_in/32, 8, 16, 4): group g of a block holds k = 4g..4g+3 of each output, as
//         w + 128, because vpdpbusd takes its first factor unsigned
//         d (n_tiles, n_in/32, 16) FP16 scales
//   Q4_0  q (n_tiles, n_in/32, 4, 16, 4): group g below, group g + 4 above, as in the file 0..15
//         d as Q8_0
//   Q4_1  q as Q4_0
//         d (n_tiles, n_in/32, 32): FP16 d (16), then -m (16)
//   Q4_K  q as Q4_0
//         d (n_tiles, n_in/256, 160): for a super-block FP16 d (16) and dmin (16), then for each of
//         its blocks, in bytes, scale (16) and min (16)
//   Q5_0  q (n_tiles, n_in/32, 5, 16, 4): as Q4_0, then the fifth bits of each output as the file's
//         block has them in fifths()
//         d as Q8_0
//   Q5_1  q as Q5_0, d as Q4_1
//   Q5_K  q as Q5_0, d as Q4_K
//   Q6_K  q (n_tiles, n_in/32, 2, 3, 16, 4): of each 16 k four groups as six_bit_words()
//         d (n_tiles, n_in/256, 144): for a super-block FP16 d (16), then for each of its blocks,
//         in bytes, the scale of its first 16 k (16) and that of the others (16)
struct TileMatrix {
  DType type = DType::kQ8_0;  // a form that takes INT8 rows
  int n_out = 0, n_in = 0;
  const uint8_t* q = nullptr;
  const uint16_t* d = nullptr;

  [[gnu::always_inline]] int n_tiles() const { return (n_out + kTileOutputs - 1) / kTileOutputs; }
  [[gnu::always_inline]] int n_blocks() const { return n_in / kQuantBlock; }
  size_t q_bytes() const { return static_cast<size_t>(n_tiles()) * tile_q(); }
  size_t d_count() const { return static_cast<size_t>(n_tiles()) * tile_d(); }

  // Of one tile: bytes of q, elements of d.
  [[gnu::always_inline]] size_t tile_q() const {
    return static_cast<size_t>(n_blocks()) * (64 * bits_of_form(type));
  }
  [[gnu::always_inline]] size_t tile_d() const {
    return form_has_parts(type) ? static_cast<size_t>(n_blocks()) / kSuperBlocks * super_d(type)
                                : static_cast<size_t>(n_blocks()) * super_halves(type);
  }
  // Of a super-block, 256 k: blocks, elements of d in all and before its bytes (without parts: of a
  // block).
  static constexpr int kSuperBlocks = 8;
  [[gnu::always_inline]] static constexpr int super_d(DType form) {
    return super_halves(form) + kSuperBlocks * kTileOutputs;
  }
  [[gnu::always_inline]] static constexpr int super_halves(DType form) {
    return form_has_mins(form) ? 2 * kTileOutputs : kTileOutputs;
  }
};

// Fills the arrays `q` and `d` of `tiles` from the rows [first, first + tiles.n_out) of `source`,
// which runs as tiles.type. Types that do not run as they are become Q8_0 here; returns how many
// weights were lost in that (model/conversion.h).
size_t repack_tiles(const Matrix& source, int first, const TileMatrix& tiles, uint8_t* q,
                    uint16_t* d);
// The same for output `output` of `tiles` alone, from row `row` of `source`: its lane of its tile.
size_t repack_output(const Matrix& source, int row, const TileMatrix& tiles, int output, uint8_t* q,
                     uint16_t* d);

// What a quantized row has of a block beside its numbers q. All of it in one place: threads that
// each quantize rows of a panel write few lines together.
struct RowBlock {
  float scale;           // dx
  float less_mins;       // -sum of q, times dx: what mins are multiplied by
  int32_t bias;          // -128 * sum of q, undoes the weights' + 128
  int32_t half_bias[2];  // the same of each 16, 4 times the 32 that is taken off 6 bits
};

// Quantized activations in panels of up to 8 rows: (panel, n_in/32, rows of the panel, 32). All
// panels but the last are full.
struct QuantRows {
  int n_rows = 0, n_in = 0;
  int8_t* q = nullptr;
  RowBlock* blocks = nullptr;  // (panel, n_in/32, rows)

  [[gnu::always_inline]] int n_blocks() const { return n_in / kQuantBlock; }
  [[gnu::always_inline]] int n_panels() const { return (n_rows + kPanelRows - 1) / kPanelRows; }
  [[gnu::always_inline]] int panel_rows(int panel) const {
    const int left = n_rows - panel * kPanelRows;
    return left < kPanelRows ? left : kPanelRows;
  }
  [[gnu::always_inline]] size_t panel_offset(int panel) const {  // in blocks
    return static_cast<size_t>(panel) * kPanelRows * n_blocks();
  }
};

}  // namespace specbound
