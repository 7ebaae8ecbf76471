// The rows of one pass on the CPU, and where their K and V lie.
#pragma once

#include <span>

#include "engine/cpu/kv_cache.h"
#include "engine/kv_lengths.h"
#include "engine/row_paths.h"

namespace specbound {

// One text (docs/architecture.md 3.6).
struct Sequence {
  KvCache kv;
  KvLengths lengths;
};

// Rows of one text, K and V of row i going to place pos + i of its cache, or each of a text of its
// own.
struct PassRows {
  Sequence* sequence = nullptr;
  int n = 0, pos = 0;
  const RowPath* paths = nullptr;  // [row]; nullptr: each row follows the one before it
  int slot = 0;                    // of the first row

  struct Alone {
    Sequence* sequence;
    int pos;
  };
  std::span<const Alone> side_by_side = {};  // [row], in place of the above but n; empty: one text

  Sequence& sequence_of(int row) const {
    return side_by_side.empty() ? *sequence : *side_by_side[row].sequence;
  }
  const RowPath* tree(int row) const {
    return paths && !paths[row].straight ? &paths[row] : nullptr;
  }
  int root() const { return pos - slot; }
  int place(int row) const { return side_by_side.empty() ? pos + row : side_by_side[row].pos; }
  int position(int row) const {
    const RowPath* path = tree(row);
    return path ? root() + path->depth : place(row);
  }
  int of_a_text() const { return side_by_side.empty() ? n : 1; }  // rows that see the same keys
};

}  // namespace specbound
