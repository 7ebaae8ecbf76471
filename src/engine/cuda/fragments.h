// Weights repacked into the order in which a GPU streams them: tiles of 16 outputs, each block of a
// tile 512 bytes in which lane l of a warp finds its 16 together, as one operand of a tensor-core
// instruction; of 4 bits, half of that. The host side of TilesI8 and TilesF16 (kernels/layouts.h),
// without CUDA.
//
// Within a block lane 4 g + t holds, of output g and of g + 8,
//   INT8, 32 k:  k 8t..8t+3 of g, the same of g + 8, then k 8t+4..8t+7 of g, and of g + 8
//   4 bits, 32 k:  the same numbers, the first eight in the lower halves of its bytes
//   FP16, 16 k:  k 4t, 4t+1 of g, the same of g + 8, then k 4t+2, 4t+3 of g, and of g + 8
// Scales of a block of 32 k: output g, output g + 8, g = 0..7; so do d and dmin of Q4_K lie.
// Outputs past n_out and FP16 weights past n_in are zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/weights.h"

namespace specbound {

inline constexpr int kFragmentOutputs = 16;

// What a matrix takes on the GPU.
struct FragmentShape {
  int n_tiles;
  int n_blocks;     // of a tile: of 32 k, or of 16 k (FP16, K rounded up to a multiple of 32)
  int block_bytes;  // 512, of 4 bits 256
  int n_supers;     // of a tile: Q4_K's blocks of 256 k; others have none

  size_t bytes_of(int tiles) const { return static_cast<size_t>(tiles) * n_blocks * block_bytes; }
  size_t scales_of(int tiles) const {  // but for FP16
    return static_cast<size_t>(tiles) * n_blocks * kFragmentOutputs;
  }
  size_t supers_of(int tiles) const {  // words of d and dmin
    return static_cast<size_t>(tiles) * n_supers * kFragmentOutputs;
  }
};
// For INT8 rows: Q4_0 and Q4_K as they are, all others as Q8_0.
FragmentShape int8_fragments(const Matrix& source);
FragmentShape half_fragments(const Matrix& source);

// Tiles [begin, end) of a Q8_0 matrix into q (end - begin, n_blocks, 512) and d (end - begin,
// n_blocks, 16), so that an upload can go piece by piece.
void repack_int8(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d);

// The same of a Q4_0 or Q4_K matrix: q (end - begin, n_blocks, 256), d, and d2 (end - begin,
// n_supers, 16), which Q4_0 does not have.
void repack_4bit(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d, uint32_t* d2);

// The same of a matrix of any type into w (end - begin, n_blocks, 256) halves, rounded to nearest
// even. Returns how many finite weights are too large for FP16 and became infinite.
size_t repack_half(const Matrix& source, int begin, int end, uint16_t* w);

}  // namespace specbound
