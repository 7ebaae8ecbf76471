// Repacking of matrices into tiles.
#include "engine/cpu/tiles.h"

#include <algorithm>
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

// Output o of a tile from one block of the file; q and d are where the tile's block begins. The
// plain form, for single outputs.
template <class Block>
void repack(const Block& from, int o, uint8_t* q, uint16_t* d) {
  constexpr DType kForm = Block::kForm;
  constexpr int kBits = bits_of_form(kForm), kParts = dtype_info(kForm)->block / kQuantBlock;
  d[o] = from.d;
  if constexpr (form_has_mins(kForm)) d[kTileOutputs + o] = from.min();
  [[maybe_unused]] auto* bytes =
      reinterpret_cast<uint8_t*>(d + TileMatrix::super_halves(kForm)) + o;
  for (int part = 0; part < kParts; ++part, q += 64 * kBits) {
    if constexpr (form_has_parts(kForm)) {
      const PartBytes two = from.part_bytes(part);
      bytes[0] = two.first;
      bytes[kTileOutputs] = two.second;
      bytes += 2 * kTileOutputs;
    }
    const auto word = [&](int g) { return from.word(part, g); };
    if constexpr (kBits == 6) {
      for (int half = 0; half < 2; ++half) {
        const int g = 4 * half;
        const SixBitWords six = six_bit_words(word(g), word(g + 1), word(g + 2), word(g + 3));
        for (int i = 0; i < 3; ++i) put(q, 3 * half + i, o, six.word[i]);
      }
    } else {
      constexpr int kWords = kBits == 5 ? 4 : kBits;
      for (int g = 0; g < kWords; ++g) {  // 8 bits: w + 128
        put(q, g, o, word(g) ^ (kBits == 8 ? 0x80808080u : 0));
      }
      if constexpr (kBits == 5) put(q, 4, o, from.fifths(part));
    }
  }
}

// Words of 16 outputs: out (4, 16) = in (16, 4), both cut out of wider rows. Loads and stores go in
// order, which compilers make vectors of; where words are put one by one they do not.
void transpose(const uint32_t* in, int in_width, uint32_t* out) {
  for (int o = 0; o < kTileOutputs; ++o) {
    const uint32_t* four = in + o * in_width;
    out[o] = four[0];
    out[kTileOutputs + o] = four[1];
    out[2 * kTileOutputs + o] = four[2];
    out[3 * kTileOutputs + o] = four[3];
  }
}

// The same as repack() of the first `n_outputs` of the 16, together: q and d of one block of a tile
// out of block b of each row.
template <class Block>
void repack_together(const Block* const* rows, int n_outputs, size_t b, uint8_t* q, uint16_t* d) {
  constexpr DType kForm = Block::kForm;
  constexpr int kBits = bits_of_form(kForm), kParts = dtype_info(kForm)->block / kQuantBlock;
  constexpr int kGroups = kBits < 6 ? 4 : 8;
  for (int o = 0; o < kTileOutputs; ++o) {
    const bool padding = o >= n_outputs;
    d[o] = padding ? 0 : rows[o][b].d;
    if constexpr (form_has_mins(kForm)) d[kTileOutputs + o] = padding ? 0 : rows[o][b].min();
  }
  [[maybe_unused]] auto* bytes = reinterpret_cast<uint8_t*>(d + TileMatrix::super_halves(kForm));
  alignas(64) uint32_t words[kTileOutputs][kGroups] = {};
  for (int part = 0; part < kParts; ++part, q += 64 * kBits) {
    if constexpr (form_has_parts(kForm)) {
      for (int o = 0; o < kTileOutputs; ++o) {
        const PartBytes two = o < n_outputs ? rows[o][b].part_bytes(part) : PartBytes{};
        bytes[o] = two.first;
        bytes[kTileOutputs + o] = two.second;
      }
      bytes += 2 * kTileOutputs;
    }
    for (int o = 0; o < n_outputs; ++o) {
      for (int g = 0; g < kGroups; ++g) words[o][g] = rows[o][b].word(part, g);
    }
    for (int g = 0; g < kGroups; g += 4) {
      alignas(64) uint32_t four[4][kTileOutputs];
      transpose(&words[0][g], kGroups, four[0]);
      if constexpr (kBits == 6) {
        alignas(64) uint32_t three[3][kTileOutputs];
        for (int o = 0; o < kTileOutputs; ++o) {
          const SixBitWords six = six_bit_words(four[0][o], four[1][o], four[2][o], four[3][o]);
          for (int i = 0; i < 3; ++i) three[i][o] = six.word[i];
        }
        std::memcpy(q + g / 4 * sizeof three, three, sizeof three);
      } else {
        if constexpr (kBits == 8) {  // w + 128
          for (auto& group : four) {
            for (uint32_t& word : group) word ^= 0x80808080u;
          }
        }
        std::memcpy(q + g / 4 * sizeof four, four, sizeof four);
      }
    }
    if constexpr (kBits == 5) {
      alignas(64) uint32_t fifths[kTileOutputs] = {};
      for (int o = 0; o < n_outputs; ++o) fifths[o] = rows[o][b].fifths(part);
      std::memcpy(q + kTileOutputs * 16, fifths, sizeof fifths);
    }
  }
}

// row_of(output): where its blocks begin.
template <class Block, class RowOf>
void repack_rows(const TileMatrix& tiles, uint8_t* q, uint16_t* d, const RowOf& row_of) {
  const size_t n_blocks = tiles.n_in / dtype_info(tiles.type)->block;
  const size_t q_step = tiles.tile_q() / n_blocks, d_step = tiles.tile_d() / n_blocks;
  for (int first = 0; first < tiles.n_out; first += kTileOutputs) {
    const int n_outputs = std::min(tiles.n_out - first, kTileOutputs);
    const Block* rows[kTileOutputs] = {};
    for (int o = 0; o < n_outputs; ++o) rows[o] = row_of(first + o);
    for (size_t b = 0; b < n_blocks; ++b, q += q_step, d += d_step) {
      repack_together(rows, n_outputs, b, q, d);
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
    for (size_t b = 0; b < n_blocks; ++b) repack(from[b], lane, q + b * q_step, d + b * d_step);
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
