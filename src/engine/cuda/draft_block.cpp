#include "engine/cuda/draft_block.h"

#include <algorithm>

#include "engine/cuda/device_kv.h"
#include "engine/cuda/weight_layout.h"
#include "engine/cuda/workspace.h"

namespace specbound {

DraftBlock::DraftBlock(const ModelConfig& model, const HeadWeights& head)
    : config(draft_layer_config(model, head)), ones(model.dim, 1.0f) {
  config.vocab_size = 1;
  weights.layers = {draft_layer_block(head, ones.data())};
  weights.output_norm = head.norm;
  weights.token_embd = {DType::kF32, 1, model.dim, reinterpret_cast<const std::byte*>(ones.data())};
  weights.lm_head = weights.token_embd;
}

DraftSizes::DraftSizes(const ModelConfig& model, const HeadWeights& head, int n_ctx) {
  const DraftLayerForm form(head);
  const auto dim = static_cast<size_t>(model.dim);
  states = (static_cast<size_t>(n_ctx) + 1) * form.state_dim(model.dim);
  own = kMaxRows * dim;
  said = form.eagle3 ? dim : 0;
  widest = form.adapter ? 0 : head.map.n_in;
  inputs = form.published ? static_cast<size_t>(widest) * kDraftRows : 0;
  vectors = 0;
  for (const float* one : {head.embedding_norm, head.state_norm, head.map_bias}) vectors += !!one;
  bytes = (states + own + said + inputs + vectors * dim) * sizeof(float) +
          (widest > 0 ? DeviceRows::bytes_needed(kDraftRows, widest) : 0);
}

size_t draft_layer_bytes(const ModelConfig& model, const HeadWeights& head, int n_ctx, KvType kv) {
  const DraftBlock block(model, head);
  const ModelConfig& config = block.config;
  const size_t map =
      head.map.n_out > 0 ? device_bytes(head.map, takes_int8_rows(head.map.type)) : 0;
  return weight_sizes(config, block.weights, GpuDtype::kAsStored).total() + map +
         (head.rope_theta > 0 ? layers_workspace_bytes(config, n_ctx, kMaxRows)
                              : Workspace::bytes_needed(config, n_ctx, kMaxRows)) +
         kv_cache_bytes(config, n_ctx, kv) + DraftSizes(model, head, n_ctx).bytes +
         sizeof(DraftState);
}

}  // namespace specbound
