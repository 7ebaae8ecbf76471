#include "drafters/forced_head.h"

#include "error.h"
#include "numerics/noise.h"

namespace specbound {

// A row's checks go ever deeper: one that is not deeper than the last is a new row's first.
std::optional<int32_t> ForcedHead::check(Round& round, int layer, float,
                                         const ShouldExit& should_exit) {
  const int pos = round.pos() + round.newest();
  if (pos != last_pos_ || layer <= last_layer_) exit_ = script_(round);
  last_pos_ = pos;
  last_layer_ = layer;
  if (!should_exit(layer == exit_.layer ? exit_.confidence : exit_.elsewhere)) return std::nullopt;
  return exit_.token;
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

ForcedScript recorded_script(std::span<const RecordedRound> rounds, std::span<const int32_t> text,
                             int vocab_size) {
  SB_CHECK(!rounds.empty() && vocab_size >= 2);
  return [=, next = size_t{0}](const Round& round) mutable -> ForcedExit {
    const int row = round.newest();
    if (row == 0) ++next;
    const RecordedRound& recorded = rounds[(next - 1) % rounds.size()];
    if (row >= static_cast<int>(recorded.exits.size())) return {};
    const size_t pos = static_cast<size_t>(round.pos() + row) + 1;
    const int32_t right = pos < text.size() ? text[pos] : 0;
    const int32_t token = row < recorded.accepted ? right : (right + 1) % vocab_size;
    return {recorded.exits[static_cast<size_t>(row)], token};
  };
}

}  // namespace specbound
