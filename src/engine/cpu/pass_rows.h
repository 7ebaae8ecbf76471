// The rows of one pass on the CPU, and where their K and V lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "engine/backend.h"
#include "engine/cpu/kv_cache.h"
#include "engine/kv_lengths.h"
#include "engine/row_paths.h"

namespace specbound {

// One text (docs/architecture.md 3.6).
struct Sequence {
  KvCache kv;
  KvLengths lengths;
};

// Those of one text, the K and V of row i of them going to place pos + i of its cache.
struct TextRows {
  Sequence* sequence = nullptr;
  int n = 0, pos = 0;
  const RowPath* paths = nullptr;  // [row]; nullptr: each row follows the one before it
  int slot = 0;                    // of the first row, in its round
  int first = 0;                   // which row of the pass that is
};

// All of a pass: of one text, any number of them; of several up to kPrefillChunk, one text's behind
// another's.
class PassRows {
 public:
  // What is given must outlive it.
  explicit PassRows(const TextRows& alone) : texts_(&alone, 1), n_(alone.n), alone_(true) {}
  explicit PassRows(std::span<const TextRows> side_by_side) : texts_(side_by_side) {
    for (size_t i = 0; i < texts_.size(); ++i) {
      SB_CHECK(texts_[i].first == n_ && n_ + texts_[i].n <= kPrefillChunk);
      std::fill_n(text_of_.begin() + n_, texts_[i].n, static_cast<uint16_t>(i));
      n_ += texts_[i].n;
    }
  }

  int n() const { return n_; }
  std::span<const TextRows> texts() const { return texts_; }
  // The one text of a pass that is not side by side; else nullptr.
  const TextRows* alone() const { return alone_ ? texts_.data() : nullptr; }

  Sequence& sequence_of(int row) const { return *text_of(row).sequence; }
  // Of a row that is not straight; else nullptr.
  const RowPath* tree(int row) const {
    const TextRows& text = text_of(row);
    const RowPath* const path = text.paths ? &text.paths[row - text.first] : nullptr;
    return path && !path->straight ? path : nullptr;
  }
  // The position of the root of its round.
  int root(int row) const {
    const TextRows& text = text_of(row);
    return text.pos - text.slot;
  }
  int place(int row) const {
    const TextRows& text = text_of(row);
    return text.pos + row - text.first;
  }
  int position(int row) const {
    const RowPath* path = tree(row);
    return path ? root(row) + path->depth : place(row);
  }

 private:
  const TextRows& text_of(int row) const { return texts_[alone_ ? 0 : text_of_[row]]; }

  std::span<const TextRows> texts_;
  int n_ = 0;
  bool alone_ = false;
  std::array<uint16_t, kPrefillChunk> text_of_;  // [row], side by side
};

}  // namespace specbound
