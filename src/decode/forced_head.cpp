#include "decode/forced_head.h"

#include "decode/noise.h"
#include "error.h"

namespace specbound {

// A row's checks go ever deeper: one that is not deeper than the last is a new row's first.
float ForcedHead::confidence(Round& round, int layer, float) {
  const int pos = round.pos() + round.newest();
  if (pos != last_pos_ || layer <= last_layer_) exit_ = script_(round);
  last_pos_ = pos;
  last_layer_ = layer;
  return layer == exit_.layer ? exit_.confidence : exit_.elsewhere;
}

ForcedScript forced_by_chance(std::span<const int32_t> text, std::vector<int> layers,
                              int vocab_size, const ForcedRates& rates, uint64_t seed) {
  SB_CHECK(vocab_size >= 2);
  return [=, drawn = uint32_t{0}](const Round& round) mutable {
    const auto r = philox4x32({drawn++, 0, 0, 0},
                              {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const auto chance = [](uint32_t word) { return (word + 0.5) * 0x1p-32; };
    const size_t next = round.history(round.newest()).size();  // the position to draft for
    ForcedExit exit;
    if (layers.empty() || next >= text.size() || chance(r[0]) >= rates.exit) return exit;
    exit.layer = layers[r[1] % layers.size()];
    exit.token = text[next];
    if (chance(r[2]) >= rates.right) {
      exit.token = static_cast<int32_t>((exit.token + 1 + r[3] % (vocab_size - 1)) % vocab_size);
    }
    return exit;
  };
}

}  // namespace specbound
