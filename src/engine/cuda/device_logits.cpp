#include "engine/cuda/device_logits.h"

#include <algorithm>

#include "engine/cuda/device.h"
#include "engine/cuda/device_linear.h"
#include "error.h"
#include "kernels/softcap.h"

namespace specbound {
namespace {

// Rows that launches for n rows are made for: a panel has a matmul of its own.
int most_rows(int n) {
  return n <= kernels::kPanelRows ? kernels::kPanelRows : kMaxRows;
}

}  // namespace

DeviceLogits::DeviceLogits(const DeviceModel& model)
    : model_(model),
      ld_(padded_logits(model.config.vocab_size)),
      normed_(model.device, kMaxRows, model.config.dim),
      pass_(model.device, 1),
      logits_(model.device, static_cast<size_t>(kMaxRows) * ld_),
      copied_(model.device, static_cast<size_t>(kMaxRows) * ld_),
      sampler_(model.device, model.n_ctx, kMaxRows, model.config.vocab_size),
      graphs_(model.device, model.graphs) {}

// logits = cap(lm_head(norm(h))) of the pass's rows, max_rows at most.
void DeviceLogits::launch_logits(const float* h, int max_rows) {
  const kernels::Stream stream = model_.device.stream();
  const ModelConfig& config = model_.config;
  const DeviceMatrix& lm_head = model_.weights.lm_head();
  const PreparedRows x =
      norm_rows(normed_, lm_head.int8(), pass_.data(), max_rows, h, model_.weights.output_norm(),
                config.dim, config.norm_eps, stream);
  project_rows(pass_.data(), x, {&lm_head}, logits_.data(), ld_, stream, max_rows);
  if (config.final_softcap > 0) {
    kernels::cap_logits(
        {pass_.data(), logits_.data(), ld_, config.vocab_size, config.final_softcap, max_rows},
        stream);
  }
}

// The logits of the pass's rows of H, and the draws after them.
void DeviceLogits::launch(const kernels::Pass& pass, std::optional<DrawKind> draw) {
  const int slots = pass.slot + pass.n_rows;
  SB_CHECK(pass.slot >= 0 && pass.n_rows >= 1 && slots <= kMaxRows && pass.pos >= 0);
  store_value(model_.device, pass_.data(), pass);
  const int max_rows = most_rows(pass.n_rows);
  graphs_.run({draw, max_rows}, [&] {
    launch_logits(model_.h, max_rows);
    if (!draw) return;
    sampler_.launch(
        *draw, {pass_.data(), logits_.data(), ld_, model_.config.vocab_size, nullptr, max_rows},
        logits_.data());
  });
}

void DeviceLogits::logits(int slot, int n, float* out) {
  launch({n, 0, slot}, std::nullopt);
  copy_logits(n, out);
}

void DeviceLogits::logits_of(const float* h, int n, float* out) {
  SB_CHECK(n >= 1 && n <= kMaxRows);
  store_value(model_.device, pass_.data(), kernels::Pass{n, 0, 0});
  launch_logits(h, most_rows(n));  // no graph: it would hold the place of these very rows
  copy_logits(n, out);
}

void DeviceLogits::copy_logits(int n, float* out) {
  const size_t floats = static_cast<size_t>(n) * ld_;
  model_.device.copy_out(copied_.data(), logits_.data(), floats * sizeof(float));
  model_.device.synchronize();
  const int vocab_size = model_.config.vocab_size;
  for (int i = 0; i < n; ++i) {
    std::copy_n(copied_.data() + static_cast<size_t>(i) * ld_, vocab_size,
                out + static_cast<size_t>(i) * vocab_size);
  }
}

void DeviceLogits::draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
                        RowDraw* draws) {
  const DrawKind kind = kind_of(rule);
  sampler_.prepare(rule, text);
  const int pos = rule.looks_back() ? static_cast<int>(text.size()) - n : 0;
  launch({n, pos, slot}, kind);
  model_.device.synchronize();
  sampler_.take(kind, n, draws);
}

}  // namespace specbound
