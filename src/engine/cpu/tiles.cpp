// Repacking of matrices into tiles.
#include "engine/cpu/tiles.h"

#include <cstring>
#include <vector>

#include "error.h"
#include "model/conversion.h"

namespace specbound {
namespace {

constexpr int kGroups = 8;  // of 4 numbers in a block

uint32_t four_bytes(const void* from) {
  uint32_t four;
  std::memcpy(&four, from, 4);
  return four;
}

// Group g of output o of a tile's block.
void put(uint8_t* q, int g, int o, uint32_t four) {
  std::memcpy(q + (g * kTileOutputs + o) * 4, &four, 4);
}

// Output o of a tile from one block of the file; q and d are where the tile's block begins. Null:
// an output past the last.
void repack(const BlockQ8_0* from, int o, uint8_t* q, uint16_t* d) {
  d[o] = from ? from->d : 0;
  for (int g = 0; g < kGroups; ++g) {
    put(q, g, o, (from ? four_bytes(from->q + 4 * g) : 0) ^ 0x80808080u);
  }
}

void repack(const BlockQ4_0* from, int o, uint8_t* q, uint16_t* d) {
  d[o] = from ? from->d : 0;
  for (int g = 0; g < kGroups / 2; ++g) put(q, g, o, from ? four_bytes(from->q + 4 * g) : 0);
}

void repack(const BlockQ4_K* from, int o, uint8_t* q, uint16_t* d) {
  d[o] = from ? from->d : 0;
  d[kTileOutputs + o] = from ? from->dmin : 0;
  auto* scales = reinterpret_cast<uint8_t*>(d + 2 * kTileOutputs) + o;
  for (int part = 0; part < TileMatrix::kSuperBlocks; ++part, q += 256) {
    const Q4KScale s = from ? q4_k_scale(*from, part) : Q4KScale{};
    scales[0] = s.scale;
    scales[kTileOutputs] = s.min;
    scales += 2 * kTileOutputs;
    for (int g = 0; g < kGroups / 2; ++g) {
      uint32_t both = 0;
      if (from) {
        const uint8_t* bytes = from->q + part / 2 * 32 + 4 * g;
        const int shift = part % 2 * 4;
        const uint32_t below = four_bytes(bytes) >> shift & 0x0f0f0f0fu;
        const uint32_t above = four_bytes(bytes + 16) >> shift & 0x0f0f0f0fu;
        both = below | above << 4;
      }
      put(q, g, o, both);
    }
  }
}

// row_of(output): where its blocks begin.
template <class Block, class RowOf>
void repack_rows(const TileMatrix& tiles, uint8_t* q, uint16_t* d, const RowOf& row_of) {
  const size_t n_blocks = tiles.n_in / dtype_info(tiles.type)->block;
  const size_t q_step = tiles.tile_q() / n_blocks, d_step = tiles.tile_d() / n_blocks;
  for (int tile = 0; tile < tiles.n_tiles(); ++tile) {
    const Block* rows[kTileOutputs] = {};
    for (int o = 0; o < kTileOutputs && tile * kTileOutputs + o < tiles.n_out; ++o) {
      rows[o] = row_of(tile * kTileOutputs + o);
    }
    for (size_t b = 0; b < n_blocks; ++b, q += q_step, d += d_step) {
      for (int o = 0; o < kTileOutputs; ++o) repack(rows[o] ? rows[o] + b : nullptr, o, q, d);
    }
  }
}

}  // namespace

size_t repack_tiles(const Matrix& source, int first, const TileMatrix& tiles, uint8_t* q,
                    uint16_t* d) {
  SB_CHECK(runs_as(source.type) == tiles.type && source.n_in == tiles.n_in);
  const auto in_map = [&]<class Block>(const Block* blocks) {
    const size_t n_blocks = source.n_in / dtype_info(tiles.type)->block;
    repack_rows<Block>(tiles, q, d, [&](int output) {
      return blocks + static_cast<size_t>(first + output) * n_blocks;
    });
  };
  if (source.type == DType::kQ8_0) {
    in_map(reinterpret_cast<const BlockQ8_0*>(source.data));
    return 0;
  }
  if (source.type == DType::kQ4_0) {
    in_map(reinterpret_cast<const BlockQ4_0*>(source.data));
    return 0;
  }
  if (source.type == DType::kQ4_K) {
    in_map(reinterpret_cast<const BlockQ4_K*>(source.data));
    return 0;
  }
  size_t lost = 0;
  std::vector<BlockQ8_0> converted(static_cast<size_t>(kTileOutputs) * tiles.n_blocks());
  repack_rows<BlockQ8_0>(tiles, q, d, [&](int output) {
    BlockQ8_0* row =
        converted.data() + static_cast<size_t>(output % kTileOutputs) * tiles.n_blocks();
    lost += convert_to_int8(source, first + output, row);
    return row;
  });
  return lost;
}

}  // namespace specbound
