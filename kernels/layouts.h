// Operands in the layouts that the kernels stream. Plain structs of device pointers, for host code
// and kernels alike. docs/architecture.md 4, 8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/activation.h"
#include "numerics/dtype.h"
#include "numerics/int8_formula.h"

namespace specbound::kernels {

inline constexpr int kTileOutputs = 16;  // of a weight tile: the rows of a tensor-core operand
inline constexpr int kPanelRows = 8;     // its columns
inline constexpr int kMaxDecodeRows = 16;
inline constexpr int kMaxPrefillRows = 512;
inline constexpr int kHalfBlock = 16;  // k of one FP16 tile
inline constexpr int kPartsOf256 = 8;  // blocks of 32 k in one of Q4_K or Q6_K

// Which rows a pass is about: in device memory, so that one graph serves every round.
struct Pass {
  int32_t n_rows;    // 1..16 while decoding, 1..512 in prefill
  int32_t pos;       // of the first row; row r is at pos + r
  int32_t slot = 0;  // row r's hidden state is H[slot + r]; all other rows of a pass begin at 0
};

// Which rows of a decode pass follow which, where they are no chain (engine/row_paths.h): in device
// memory as well. The round's root is at pos - slot of the pass, be that p. Row r is at position
// p + depth[r], its K and V go to place p + its slot of the cache, which is pos + r and the last
// number of path[r], and the key and value that it sees at position p + d are those of place
// p + number d of path[r]. Beside RowSequences a row's root is that of its text's rows, at
// pos[r] - depth[r] there, slots counted from it.
struct RowTree {
  uint64_t path[kMaxDecodeRows];  // ascending slots, 4 bits each, number 0 the lowest
  uint8_t depth[kMaxDecodeRows];
};

// Rows of a decode pass that are the next ones of several texts (Sequences of engine/backend.h), in
// place of a pass's pos: in device memory as well. No sequence twice, but with a RowTree.
struct RowSequences {
  int32_t pos[kMaxDecodeRows];       // of row r
  int32_t sequence[kMaxDecodeRows];  // whose K and V it sees, and leaves its own in
};

// Whether a form has what TilesI8::d2 holds, and for how many blocks of 32 k it holds it once.
constexpr bool has_d2(DType form) {
  return form_has_mins(form) || form_has_parts(form);
}
constexpr int d2_blocks(DType form) {
  return form_has_parts(form) ? kPartsOf256 : 1;
}
// Whether a word of it is one output's, of d and the min; else it is of outputs g and g + 8.
constexpr bool d2_of_each_output(DType form) {
  return form_has_mins(form) && form_has_parts(form);
}

// Weights W (n_out, n_in) for INT8 rows, in fragment order. Q8_0: a tile of 16 outputs by a block
// of 32 k is 512 bytes, 16 a lane, as one operand of mma_16x8x32. Lane 4 g + t holds k 8 t ..
// 8 t + 3 (of the block) of output g (of the tile), the same of output g + 8, then k 8 t + 4 ..
// 8 t + 7 of g, and of g + 8: so a lane finds its activations in 8 bytes that lie together. Outputs
// past n_out are zero.
// Q4_0, Q4_1 and Q4_K have half of that, 8 a lane: byte i holds the lane's number i below and its
// number i + 8 above, as q of the file. Q5_0, Q5_1 and Q5_K have that and, behind all lanes, a word
// for each two of them with the fifth bits (weight_forms.cuh). Q6_K has 12 a lane: q - 32, in 6
// bits with a sign, the four words as six_bit_words(), the first of all lanes, then the second,
// then the third.
struct TilesI8 {
  int32_t n_out, n_in;  // n_in a multiple of 32; Q4_K, Q5_K, Q6_K: of 256
  const int8_t* q;      // (n_tiles, n_in/32, 32 lanes, 16, 8, 10 or 12), 16-byte aligned
  // (n_tiles, n_in/32, 8, 2), of g and of g + 8, 4-byte aligned: FP16 scales; Q4_K, Q5_K: scale +
  // 256 min; Q6_K: scale of the first 16 k + 256 that of the others
  const uint16_t* d;
  DType type = DType::kQ8_0;  // its int8_form()
  // Q4_K, Q5_K: (n_tiles, n_in/256, 8, 2), of g and of g + 8: FP16 d below, dmin above. Q6_K:
  // (n_tiles, n_in/256, 8): FP16 d of g below, of g + 8 above. Q4_1, Q5_1: (n_tiles, n_in/32, 8):
  // -m so. 8-byte aligned.
  const uint32_t* d2 = nullptr;
};

// FP16 weights: a tile of 16 outputs by a block of 16 k is 512 bytes, 16 a lane, as one operand of
// mma_16x8x16: lane 4 g + t holds W[16 tile + g][4 t, 4 t + 1] (of the block), the same of g + 8,
// then k 4 t + 2, 4 t + 3 of g, and of g + 8. Rows of W are padded with zeros to a multiple of 32.
struct TilesF16 {
  int32_t n_out, n_in;
  const uint16_t* w;  // (n_tiles, n_blocks, 32 lanes, 8), 16-byte aligned
};

// Rows of activations, quantized by int8_formula.h, in panels of 8; rows past the last are zero.
struct RowsI8 {
  int32_t n_in;  // a multiple of 32
  int8_t* q;     // (panels, n_in/32, 8, 32), 16-byte aligned
  float* d;      // (panels, n_in/32, 8)
};

// Rows of activations for FP16 weights: row r holds x / scale[r] as the sum of two FP16 numbers,
// the nearest to it and the nearest to what is left: 23 bits of it, where one number alone would
// keep 11 of the 24 that the CPU multiplies by. scale is a power of two, exact: the largest
// magnitude lies in [2^13, 2^14) (below it where scale would be less than 2^-126); a row of zeros
// has 1; a row with an infinity or a NaN has that, and zeros: all of its products are NaN.
struct RowsF16 {
  int32_t n_in;  // padded to a multiple of 32 with zeros
  // (panels, n_in/16, 8, 4, 2, 4), 16-byte aligned: of a block of 16 k and a row, for each t the
  // nearest numbers of k 4 t .. 4 t + 3, then what is left of them. Rows past the last are zero.
  uint16_t* x;
  float* scale;  // (panels, 8)
};

inline constexpr int kKeyBlock = 16;  // positions whose keys, or values, lie together
inline constexpr int kKvScaled = 32;  // INT8 numbers of a position that share a scale

// One layer's K and V, in blocks of 16 positions: K lies (n_kv_heads, n_ctx/16, head_dim, 16), so
// that threads are positions; V lies (n_kv_heads, n_ctx/16, 16, head_dim). As FP16, or as INT8 by
// the formula of engine/cpu/kv_format.h: then behind each block, of K and of V, its positions'
// scales follow, (scales, 16) FP16.
struct KvLayer {
  void* k;
  void* v;
  int32_t n_ctx;  // a multiple of 64
  bool int8 = false;
};

// Of one position of a head.
constexpr int kv_scales(bool int8, int head_dim) {
  return int8 ? (head_dim + kKvScaled - 1) / kKvScaled : 0;
}
// Bytes of the keys, or of the values, of n positions of a head, rounded up to whole blocks.
constexpr size_t kv_bytes(bool int8, int head_dim, int n) {
  const size_t numbers = static_cast<size_t>(head_dim) * (int8 ? 1 : sizeof(uint16_t));
  const size_t scales = kv_scales(int8, head_dim) * sizeof(uint16_t);
  return (numbers + scales) * ((n + kKeyBlock - 1) / kKeyBlock) * kKeyBlock;
}

constexpr int tiles_of(int n_out) {
  return (n_out + kTileOutputs - 1) / kTileOutputs;
}
constexpr int panels_of(int n_rows) {
  return (n_rows + kPanelRows - 1) / kPanelRows;
}

}  // namespace specbound::kernels
