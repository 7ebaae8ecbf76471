#include "engine/cuda/check_memory.h"

#include <algorithm>

#include "engine/backend.h"
#include "engine/cuda/device_sampler.h"
#include "engine/cuda/draft_block.h"
#include "engine/cuda/weight_layout.h"
#include "error.h"

namespace specbound {

HeadLayout::HeadLayout(const ExitHeads& heads, int shortlist, const ModelConfig& config)
    : dim(config.dim), shortlist(shortlist) {
  const int all = static_cast<int>(heads.shortlist().size());
  SB_CHECK(shortlist >= 0 && shortlist <= all &&
           (shortlist % kernels::kTileOutputs == 0 || shortlist == all));
  for (size_t i = 0; i < heads.heads().size(); ++i) {
    const HeadWeights& head = heads.heads()[i];
    chained |= head.kind == HeadKind::kChained;
    if (is_layer(head.kind) && (says_all(head.kind) || shortlist > 0)) {
      layers.push_back(static_cast<int>(i));
      layer_says_list |= !says_all(head.kind);
    }
    inner = std::max(inner, head.inner.n_out);
    if (is_by_place(head.kind)) {
      const int most = static_cast<int>(head.medusa.size());
      path = std::max(path, head.kind == HeadKind::kHydra ? most + 1 : 1);
    }
    const int said = says_all(head.kind) ? config.vocab_size : shortlist;
    logits = std::max(logits, head.lm_head.n_out > 0 ? head.lm_head.n_out : said);
  }
}

Matrix HeadLayout::part(Matrix folded) const {
  folded.n_out = std::min(folded.n_out, shortlist);
  return folded;
}

size_t HeadLayout::weight_bytes(const ExitHeads& heads, bool lm_head_int8) const {
  size_t bytes = 0;
  const auto add = [&](const Matrix& matrix, bool int8) {
    if (matrix.n_out > 0) bytes += device_bytes(matrix, int8);
  };
  for (const HeadWeights& head : heads.heads()) {
    add(head.lm_head, takes_int8_rows(head.lm_head.type));
    bytes += head.tokens.size() * sizeof(int32_t);
    if (is_layer(head.kind)) continue;
    const auto floats = [&](const float* source, int n) {
      bytes += source ? n * sizeof(float) : 0;
    };
    for (const MedusaHead& one : head.medusa) {
      for (const MedusaHead::Block& block : one.blocks) {
        add(block.map, takes_int8_rows(block.map.type));
        add(block.residual, takes_int8_rows(block.residual.type));
        floats(block.bias, dim);
        floats(block.residual_bias, dim);
      }
      add(one.lm_head, takes_int8_rows(one.lm_head.type));
      floats(one.lm_bias, one.lm_head.n_out);
    }
    add(head.map, takes_int8_rows(head.map.type));
    add(part(head.folded), true);
    add(head.inner, true);
    add(head.outer, true);
  }
  if (listed()) add({DType::kF32, shortlist, dim, nullptr}, lm_head_int8);
  return bytes;
}

size_t device_heads_bytes(const ExitHeads& heads, int shortlist, const ModelConfig& config,
                          bool lm_head_int8, int n_ctx, KvType kv) {
  const HeadLayout layout(heads, shortlist, config);
  size_t bytes = layout.weight_bytes(heads, lm_head_int8) + CheckMemory::bytes_needed(layout) +
                 DeviceSampler::bytes_needed(n_ctx, 1, layout.logits);
  for (const int layer : layout.layers) {
    bytes += draft_layer_bytes(config, heads.heads()[static_cast<size_t>(layer)], n_ctx, kv);
  }
  return bytes;
}

namespace {

// Numbers of values.
struct Sizes {
  int widest_row, logits;
  size_t u, path, y, peaks;

  explicit Sizes(const HeadLayout& layout) {
    widest_row = std::max(layout.dim * std::max(layout.path, 1), layout.inner);
    logits = (layout.logits + 3) / 4 * 4;
    // A row has a panel of its own: the matmuls' operand.
    u = layout.chained ? size_t{kMaxRows + 1} * kernels::kPanelRows * 2 * layout.dim : 0;
    path = static_cast<size_t>(layout.path) * layout.dim;
    y = static_cast<size_t>(layout.dim) + std::max(layout.inner, path > 0 ? layout.dim : 0);
    peaks = kernels::peak_chunks_of(layout.logits);
  }
};

}  // namespace

size_t CheckMemory::bytes_needed(const HeadLayout& layout) {
  const Sizes sizes(layout);
  return sizeof(CheckState) + sizeof(kernels::ExitDecision) +
         DeviceRows::bytes_needed(1, sizes.widest_row) + layout.shortlist * sizeof(int32_t) +
         sizes.u +
         (layout.dim + sizes.u / kQuantBlock + sizes.path + sizes.y + size_t{2} * sizes.logits) *
             sizeof(float) +
         sizes.peaks * sizeof(kernels::PeakChunk);
}

CheckMemory::CheckMemory(Device& device, const HeadLayout& layout) : dim(layout.dim) {
  const Sizes sizes(layout);
  const auto take = [&]<class T>(DeviceMemory<T>& memory, size_t n) {
    if (n > 0) memory = DeviceMemory<T>(device, n);
  };
  take(state, 1);
  row = DeviceRows(device, 1, sizes.widest_row);
  take(ones, dim);
  take(ids, layout.shortlist);
  take(u_q, sizes.u);
  take(u_d, sizes.u / kQuantBlock);
  take(path, sizes.path);
  take(y, sizes.y);
  take(z, sizes.logits);
  take(penalized, sizes.logits);
  take(peaks, sizes.peaks);
  take(decision, 1);
}

kernels::RowsI8 CheckMemory::half(int slot, int second) const {
  const size_t block = static_cast<size_t>(2 * slot + second) * dim / kQuantBlock;
  return {dim, u_q.data() + block * kernels::kPanelRows * kQuantBlock,
          u_d.data() + block * kernels::kPanelRows};
}

kernels::RowsI8 CheckMemory::both(int slot) const {
  const kernels::RowsI8 first = half(slot, 0);
  return {2 * dim, first.q, first.d};
}

}  // namespace specbound
