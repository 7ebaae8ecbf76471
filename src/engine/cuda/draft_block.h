// The draft layer's block as a model of its own, and what all of the layer takes on a GPU. Free of
// kernels: known before there is a device.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cuda/device_forward.h"
#include "engine/kv_type.h"
#include "engine/row_paths.h"
#include "kernels/layouts.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

struct DraftBlock {
  // `head` must outlive it.
  DraftBlock(const ModelConfig& model, const HeadWeights& head);
  DraftBlock(const DraftBlock&) = delete;
  DraftBlock& operator=(const DraftBlock&) = delete;

  ModelConfig config;
  std::vector<float> ones;  // (dim): a norm without a weight
  Weights weights;          // its embedding and lm_head stand for none
};

// What a pass through the block is about, in device memory.
struct DraftState {
  PassState block;
  kernels::Pass before;  // the states before its rows
};

// Rows of a pass through the block: one panel, which the two halves of what W multiplies are
// written into apart.
inline constexpr int kDraftRows = kernels::kPanelRows;

// Numbers of values: rows [e / rms(e); s / rms(s)] of a pass; states before each place and behind
// the last, and those of a round's slots.
inline size_t draft_inputs(int dim) {
  return size_t{2} * dim * kDraftRows;
}
inline size_t draft_states(int dim, int n_ctx) {
  return static_cast<size_t>(n_ctx + 1 + kMaxRows) * dim;
}

// All that a DeviceDraftLayer takes.
size_t draft_layer_bytes(const ModelConfig& model, const HeadWeights& head, int n_ctx, KvType kv);

}  // namespace specbound
