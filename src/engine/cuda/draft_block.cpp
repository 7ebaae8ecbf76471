#include "engine/cuda/draft_block.h"

#include "engine/cuda/weight_layout.h"
#include "engine/cuda/workspace.h"

namespace specbound {

DraftBlock::DraftBlock(const ModelConfig& model, const HeadWeights& head)
    : config(draft_layer_config(model, head)), ones(model.dim, 1.0f) {
  config.vocab_size = 1;
  weights.layers = {head.block};
  weights.layers[0].attn_norm = weights.layers[0].ffn_norm = ones.data();
  weights.output_norm = head.norm;
  weights.token_embd = {DType::kF32, 1, model.dim, reinterpret_cast<const std::byte*>(ones.data())};
  weights.lm_head = weights.token_embd;
}

size_t draft_layer_bytes(const ModelConfig& model, const HeadWeights& head, int n_ctx, KvType kv) {
  const DraftBlock block(model, head);
  const size_t inputs = draft_inputs(model.dim);
  const size_t floats = draft_states(model.dim, n_ctx) + inputs / kQuantBlock;
  return weight_sizes(block.config, block.weights, GpuDtype::kAsStored).total() +
         device_bytes(head.map, true) + Workspace::bytes_needed(block.config, n_ctx, kMaxRows) +
         kv_cache_bytes(block.config, n_ctx, kv) + floats * sizeof(float) + inputs +
         sizeof(DraftState);
}

}  // namespace specbound
