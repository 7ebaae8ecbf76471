// INT8 operands in the layouts the kernels stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/int8_formula.h"
#include "model/weights.h"

namespace specbound {

template <class T>
constexpr T round_up(T n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

inline constexpr int kTileOutputs = 16;
inline constexpr int kPanelRows = 8;

// A Q8_0 matrix repacked into tiles of 16 outputs: what a pass over 8 rows reads is read once, in
// order. In place it costs 4x one row, in tiles 1.7x. The last tile is padded with zero outputs.
struct TileMatrix {
  int n_out = 0, n_in = 0;
  // (n_tiles, n_in/32, 8, 16, 4): group g of a block holds k = 4g..4g+3 of each output, as w + 128,
  // because vpdpbusd takes its first factor unsigned.
  const uint8_t* q = nullptr;
  const uint16_t* d = nullptr;  // (n_tiles, n_in/32, 16) FP16 scales

  [[gnu::always_inline]] int n_tiles() const { return (n_out + kTileOutputs - 1) / kTileOutputs; }
  [[gnu::always_inline]] int n_blocks() const { return n_in / kQuantBlock; }
  size_t q_bytes() const { return static_cast<size_t>(n_tiles()) * n_blocks() * 512; }
  size_t d_count() const { return static_cast<size_t>(n_tiles()) * n_blocks() * kTileOutputs; }
};

// Fills the arrays `q` and `d` of `tiles` from the Q8_0 rows [first, first + tiles.n_out) of
// `source`.
void repack_tiles(const Matrix& source, int first, const TileMatrix& tiles, uint8_t* q,
                  uint16_t* d);

// Quantized activations in panels of up to 8 rows: (panel, n_in/32, rows of the panel, 32). All
// panels but the last are full.
struct QuantRows {
  int n_rows = 0, n_in = 0;
  int8_t* q = nullptr;
  float* scale = nullptr;   // (panel, n_in/32, rows): dx
  int32_t* bias = nullptr;  // (panel, n_in/32, rows): -128 * sum of q, undoes the weights' + 128

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
