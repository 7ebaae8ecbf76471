// What the kinds of draft layers (is_layer() of HeadKind) differ by, for every engine that runs
// them: which states of the model they take, and what their block is. docs/architecture.md 6.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

struct DraftLayerForm {
  explicit DraftLayerForm(const HeadWeights& head)
      : eagle3(head.kind == HeadKind::kEagle3),
        mtp(head.kind == HeadKind::kMtp),
        adapter(head.kind == HeadKind::kKangaroo),
        published(is_published(head.kind)),
        behind(published && !adapter ? 1 : 0),
        says_normed(!published || mtp || adapter),
        taken(adapter ? std::array{head.layer, 0, 0} : head.states) {}

  bool eagle3, mtp, adapter;
  bool published;
  int behind;        // tokens of a text before those that it sees
  bool says_normed;  // the state after a row is w u / rms(u), not u
  // Layers of the model whose rows are the states; 0: none, it is the last one's.
  std::array<int, 3> taken;

  // Numbers of a state, of rows of `dim`.
  int state_dim(int dim) const { return eagle3 ? 3 * dim : dim; }
  // The part of it that the rows behind layer l are; none.
  std::optional<int> part_of(int l) const {
    const auto found = std::ranges::find(taken, l);
    if (found == taken.end()) return std::nullopt;
    return static_cast<int>(found - taken.begin());
  }
  // The first of the layers from..to whose rows are taken; else `to`.
  int next_state(int from, int to) const {
    for (const int layer : taken) {
      if (layer >= from && layer < to) return layer;
    }
    return to;
  }
};

// Its block with the norms that it runs with; `ones` (dim) is one without a weight.
inline LayerWeights draft_layer_block(const HeadWeights& head, const float* ones) {
  LayerWeights block = head.block;
  if (head.kind == HeadKind::kLayer) block.attn_norm = block.ffn_norm = ones;
  if (head.kind == HeadKind::kEagle) block.ffn_norm = head.norm;
  return block;
}

}  // namespace specbound
