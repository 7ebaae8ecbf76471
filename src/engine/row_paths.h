// Which row of a round follows which. The rows are a tree, a row's slot being above its parent's; a
// chain is the tree without siblings. docs/architecture.md 3.5.
//
// A round whose root is at position p keeps the K and V of row `slot` at place p + slot of the
// cache. The row's position in the text is p plus its depth, and the key of position p + d is that
// of its ancestor at depth d. Rows whose ancestors are all the slots before them are straight:
// place and position are one.
#pragma once

#include <array>
#include <cstdint>

#include "error.h"

namespace specbound {

inline constexpr int kMaxRows = 16;  // rows of one round: w_max at most

struct RowPath {
  int depth = 0;
  bool straight = true;
  std::array<uint8_t, kMaxRows> slots{};  // [depth]: its ancestors', then its own
};

class RowPaths {
 public:
  RowPaths() {
    for (int slot = 0; slot < kMaxRows; ++slot) reset(slot);
  }

  // Row `slot` follows all slots before it.
  void reset(int slot) {
    SB_CHECK(0 <= slot && slot < kMaxRows);
    RowPath& path = paths_[slot];
    path.depth = slot;
    path.straight = true;
    for (int d = 0; d <= slot; ++d) path.slots[d] = static_cast<uint8_t>(d);
  }
  // Row `slot` follows row `parent`, 0 <= parent < slot.
  void follow(int slot, int parent) {
    SB_CHECK(0 <= parent && parent < slot && slot < kMaxRows);
    RowPath& path = paths_[slot];
    path = paths_[parent];
    path.slots[++path.depth] = static_cast<uint8_t>(slot);
    path.straight = path.straight && parent == slot - 1;
  }

  const RowPath& operator[](int slot) const { return paths_[slot]; }

 private:
  std::array<RowPath, kMaxRows> paths_;
};

}  // namespace specbound
