#include "engine/cuda/check_memory.h"

#include <algorithm>

#include "engine/backend.h"
#include "engine/cuda/device_sampler.h"
#include "engine/cuda/draft_block.h"
#include "engine/cuda/weight_layout.h"
#include "error.h"

namespace specbound {

std::string why_not_on_gpu(const ExitHeads& heads) {
  for (const HeadWeights& head : heads.heads()) {
    if (!is_published(head.kind)) continue;
    return format(
        "%s: expected heads that run on a GPU, found %s heads, which run on the CPU alone",
        heads.path().c_str(), head_kind_name(head.kind));
  }
  return "";
}

void require_on_gpu(const ExitHeads& heads) {
  const std::string why_not = why_not_on_gpu(heads);
  if (why_not.empty()) return;
  throw Error(ErrorCode::kUnsupported,
              why_not + ": device=cpu runs them, speculation=off does without");
}

HeadLayout::HeadLayout(const ExitHeads& heads, int shortlist, const ModelConfig& config)
    : dim(config.dim), shortlist(shortlist) {
  const int all = static_cast<int>(heads.shortlist().size());
  SB_CHECK(shortlist >= 0 && shortlist <= all &&
           (shortlist % kernels::kTileOutputs == 0 || shortlist == all));
  require_on_gpu(heads);
  if (shortlist > 0) layer = heads.find(HeadKind::kLayer, 0);
  for (const HeadWeights& head : heads.heads()) {
    chained |= head.kind == HeadKind::kChained;
    inner = std::max(inner, head.inner.n_out);
    logits = std::max(logits, head.kind == HeadKind::kFull ? config.vocab_size : shortlist);
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
    if (head.kind == HeadKind::kLayer) continue;
    add(head.map, head.map.type == DType::kQ8_0);
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
  if (layout.layer >= 0) {
    bytes += draft_layer_bytes(config, heads.heads()[layout.layer], n_ctx, kv);
  }
  return bytes;
}

namespace {

// Numbers of values.
struct Sizes {
  int widest_row, logits;
  size_t u, y, peaks;

  explicit Sizes(const HeadLayout& layout) {
    widest_row = std::max(layout.dim, layout.inner);
    logits = (layout.logits + 3) / 4 * 4;
    // A row has a panel of its own: the matmuls' operand.
    u = layout.chained ? size_t{kMaxRows + 1} * kernels::kPanelRows * 2 * layout.dim : 0;
    y = static_cast<size_t>(layout.dim) + layout.inner;
    peaks = kernels::peak_chunks_of(layout.logits);
  }
};

}  // namespace

size_t CheckMemory::bytes_needed(const HeadLayout& layout) {
  const Sizes sizes(layout);
  return sizeof(CheckState) + DeviceRows::bytes_needed(1, sizes.widest_row) +
         layout.shortlist * sizeof(int32_t) + sizes.u +
         (layout.dim + sizes.u / kQuantBlock + sizes.y + size_t{2} * sizes.logits) * sizeof(float) +
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
  take(y, sizes.y);
  take(z, sizes.logits);
  take(penalized, sizes.logits);
  take(peaks, sizes.peaks);
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
