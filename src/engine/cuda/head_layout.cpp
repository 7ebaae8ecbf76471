#include "engine/cuda/head_layout.h"

#include <algorithm>

#include "engine/cuda/check_memory.h"
#include "engine/cuda/device_sampler.h"
#include "engine/cuda/weight_layout.h"
#include "error.h"

namespace specbound {

HeadLayout::HeadLayout(const ExitHeads& heads, int shortlist, const ModelConfig& config)
    : dim(config.dim), shortlist(shortlist) {
  const int all = static_cast<int>(heads.shortlist().size());
  SB_CHECK(shortlist >= 0 && shortlist <= all &&
           (shortlist % kernels::kTileOutputs == 0 || shortlist == all));
  for (const HeadWeights& head : heads.heads()) {
    SB_CHECK(has_weights(head.kind));
    chained |= head.kind == HeadKind::kChained;
    inner = std::max(inner, head.inner.n_out);
    logits = std::max(logits, head.kind == HeadKind::kFull ? config.vocab_size : shortlist);
  }
}

Matrix HeadLayout::listed(Matrix folded) const {
  folded.n_out = std::min(folded.n_out, shortlist);
  return folded;
}

size_t HeadLayout::weight_bytes(const ExitHeads& heads, bool lm_head_int8) const {
  size_t bytes = 0;
  const auto add = [&](const Matrix& matrix, bool int8) {
    if (matrix.n_out > 0) bytes += device_bytes(matrix, int8);
  };
  for (const HeadWeights& head : heads.heads()) {
    add(head.map, head.map.type == DType::kQ8_0);
    add(listed(head.folded), true);
    add(head.inner, true);
    add(head.outer, true);
  }
  if (chained) add({DType::kF32, shortlist, dim, nullptr}, lm_head_int8);
  return bytes;
}

size_t device_heads_bytes(const ExitHeads& heads, int shortlist, const ModelConfig& config,
                          bool lm_head_int8, int n_ctx) {
  const HeadLayout layout(heads, shortlist, config);
  return layout.weight_bytes(heads, lm_head_int8) + CheckMemory::bytes_needed(layout) +
         DeviceSampler::bytes_needed(n_ctx, 1, layout.logits);
}

}  // namespace specbound
