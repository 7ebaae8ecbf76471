#include "decode/replayed_head.h"

#include "error.h"

namespace specbound {

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
