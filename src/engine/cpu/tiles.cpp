// Repacking of matrices into tiles.
#include "engine/cpu/tiles.h"

#include <cstring>
#include <vector>

#include "error.h"
#include "model/conversion.h"

namespace specbound {
namespace {

// Group g of output o of a tile's block.
void put(uint8_t* q, int g, int o, uint32_t four) {
  std::memcpy(q + (g * kTileOutputs + o) * 4, &four, 4);
}

// Output o of a tile from one block of the file; q and d are where the tile's block begins. Null:
// an output past the last.
template <class Block>
void repack(const Block* from, int o, uint8_t* q, uint16_t* d) {
  constexpr DType kForm = Block::kForm;
  constexpr int kBits = bits_of_form(kForm), kParts = dtype_info(kForm)->block / kQuantBlock;
  d[o] = from ? from->d : 0;
  [[maybe_unused]] uint8_t* scales = nullptr;
  if constexpr (form_has_mins(kForm)) {
    d[kTileOutputs + o] = from ? from->dmin : 0;
    scales = reinterpret_cast<uint8_t*>(d + 2 * kTileOutputs) + o;
  }
  for (int part = 0; part < kParts; ++part, q += 64 * kBits) {
    if constexpr (form_has_mins(kForm)) {
      const Q4KScale s = from ? q4_k_scale(*from, part) : Q4KScale{};
      scales[0] = s.scale;
      scales[kTileOutputs] = s.min;
      scales += 2 * kTileOutputs;
    }
    for (int g = 0; g < kBits; ++g) {  // 8 bits: w + 128
      put(q, g, o, (from ? from->word(part, g) : 0) ^ (kBits == 8 ? 0x80808080u : 0));
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
  if (source.type == tiles.type) {
    with_block_of(tiles.type, [&]<class Block>(const Block*) {
      const size_t n_blocks = source.n_in / dtype_info(tiles.type)->block;
      repack_rows<Block>(tiles, q, d, [&](int output) {
        return reinterpret_cast<const Block*>(source.data) +
               static_cast<size_t>(first + output) * n_blocks;
      });
    });
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

size_t repack_output(const Matrix& source, int row, const TileMatrix& tiles, int output, uint8_t* q,
                     uint16_t* d) {
  SB_CHECK(runs_as(source.type) == tiles.type && source.n_in == tiles.n_in);
  SB_CHECK(output >= 0 && output < tiles.n_out);
  const int tile = output / kTileOutputs, lane = output % kTileOutputs;
  q += tile * tiles.tile_q();
  d += tile * tiles.tile_d();
  const auto put_row = [&]<class Block>(const Block* from) {
    const size_t n_blocks = source.n_in / dtype_info(tiles.type)->block;
    const size_t q_step = tiles.tile_q() / n_blocks, d_step = tiles.tile_d() / n_blocks;
    for (size_t b = 0; b < n_blocks; ++b) repack(from + b, lane, q + b * q_step, d + b * d_step);
  };
  if (source.type == tiles.type) {
    with_block_of(tiles.type, [&]<class Block>(const Block*) {
      put_row(reinterpret_cast<const Block*>(source.data + row * (source.bytes() / source.n_out)));
    });
    return 0;
  }
  std::vector<BlockQ8_0> converted(tiles.n_blocks());
  const size_t lost = convert_to_int8(source, row, converted.data());
  put_row(converted.data());
  return lost;
}

}  // namespace specbound
