// A draft layer's block as a model of its own, and what all of the layer takes on a GPU. Free of
// kernels: known before there is a device.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cuda/device_forward.h"
#include "engine/draft_layer_form.h"
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
  kernels::Pass before;  // the states that its rows are made of
};

// Rows of a pass through the block: one panel, which the two halves of what W multiplies are
// written into apart.
inline constexpr int kDraftRows = kernels::kPanelRows;

// Numbers of values that a layer works with, beside its block.
struct DraftSizes {
  DraftSizes(const ModelConfig& model, const HeadWeights& head, int n_ctx);

  size_t states;  // before each place and behind the last one
  size_t own;     // of a round's slots
  size_t said;    // what logits are of, where that is none of those
  int widest;     // row that a matmul takes before the block; 0: none
  size_t inputs;  // such rows of a pass, as floats
  int vectors;    // (dim): norms of its inputs and W's bias
  size_t bytes;   // of all these and the rows as matmuls take them
};

// All that a DeviceDraftLayer takes.
size_t draft_layer_bytes(const ModelConfig& model, const HeadWeights& head, int n_ctx, KvType kv);

}  // namespace specbound
