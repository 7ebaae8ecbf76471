// Repacking of Q8_0 matrices into tiles.
#include "engine/cpu/tiles.h"

#include <cstring>

namespace specbound {

void repack_tiles(const Matrix& source, int first, const TileMatrix& tiles, uint8_t* q,
                  uint16_t* d) {
  const int n_blocks = tiles.n_blocks();
  const auto* blocks = reinterpret_cast<const BlockQ8_0*>(source.data);
  for (int tile = 0; tile < tiles.n_tiles(); ++tile) {
    for (int b = 0; b < n_blocks; ++b, q += 512, d += kTileOutputs) {
      for (int o = 0; o < kTileOutputs; ++o) {
        const int out = tile * kTileOutputs + o;
        if (out >= tiles.n_out) {
          d[o] = 0;
          for (int g = 0; g < 8; ++g) std::memset(q + (g * kTileOutputs + o) * 4, 0x80, 4);
          continue;
        }
        const BlockQ8_0& block = blocks[static_cast<size_t>(first + out) * n_blocks + b];
        d[o] = block.d;
        for (int g = 0; g < 8; ++g) {
          uint32_t four;
          std::memcpy(&four, block.q + 4 * g, 4);
          four ^= 0x80808080u;
          std::memcpy(q + (g * kTileOutputs + o) * 4, &four, 4);
        }
      }
    }
  }
}

}  // namespace specbound
