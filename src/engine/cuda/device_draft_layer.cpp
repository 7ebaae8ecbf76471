#include "engine/cuda/device_draft_layer.h"

#include <algorithm>
#include <array>

#include "engine/cuda/device_kv.h"
#include "engine/cuda/device_linear.h"
#include "engine/cuda/draft_block.h"
#include "engine/cuda/workspace.h"
#include "error.h"
#include "kernels/keep_path.h"
#include "kernels/rows.h"

namespace specbound {

struct DeviceDraftLayer::Block {
  Block(const DeviceModel& model, const HeadWeights& head)
      : source(model.config, head),
        weights(model.device, source.config, source.weights, {}),
        map(upload_matrix(model.device, head.map, true, map_memory)),
        work(model.device, source.config, model.n_ctx, kMaxRows),
        kv(model.device, source.config, model.n_ctx, 1, model.kv),
        forward(model.device, source.config, weights, work, kv, *model.rope) {}

  DraftBlock source;
  DeviceWeights weights;
  std::vector<DeviceMemory<std::byte>> map_memory;
  DeviceMatrix map;  // W
  Workspace work;
  DeviceKv kv;
  DeviceForward forward;
};

DeviceDraftLayer::DeviceDraftLayer(const DeviceModel& model, const HeadWeights& head)
    : model_(model),
      dim_(model.config.dim),
      n_ctx_(model.n_ctx),
      states_(model.device, draft_states(dim_, n_ctx_)),
      state_(model.device, 1),
      u_q_(model.device, draft_inputs(dim_)),
      u_d_(model.device, draft_inputs(dim_) / kQuantBlock),
      graphs_(model.device, model.graphs),
      tokens_(n_ctx_) {
  SB_CHECK(model.rope != nullptr);
  block_ = std::make_unique<Block>(model, head);
  begin_at(0);
}

DeviceDraftLayer::~DeviceDraftLayer() = default;

// Nothing is known of what stands before `pos`: there is no state, which counts as zeros.
void DeviceDraftLayer::begin_at(int pos) {
  first_ = end_ = pos;
  valid_ = 0;
  model_.device.clear(state(pos), dim_ * sizeof(float));
}

void DeviceDraftLayer::ran(const kernels::Pass* pass, int pos, std::span<const int32_t> tokens,
                           const float* h) {
  if (pos > end_ || pos < first_) begin_at(pos);
  const int n = static_cast<int>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + pos);
  kernels::norm_floats(
      {pass, h, model_.weights.output_norm(), dim_, model_.config.norm_eps, state(pos + 1), n},
      model_.device.stream());
  // Behind a truncate() that is taken back the others are still there.
  end_ = std::max(end_, pos + n);
  valid_ = std::min(valid_, pos - first_);
}

void DeviceDraftLayer::keep_path(int pos, const RowPath& path) {
  if (path.straight) return;
  for (int d = 1; d <= path.depth; ++d) tokens_[pos + d] = tokens_[pos + path.slots[d]];
  kernels::keep_rows({state(pos + 1), dim_, path.depth, packed_path(path)}, model_.device.stream());
}

void DeviceDraftLayer::look(const Row& looked) {
  const auto& [root, slot, path, token] = looked;
  if (slot > 0) {
    const int before = n_ctx_ + 1 + path.slots[path.depth - 1];
    return run(root - first_ + slot, slot, {&token, 1}, before, &path);
  }
  if (root > end_ || root < first_) begin_at(root);
  valid_ = std::min(valid_, root - first_);
  for (int n; valid_ <= root - first_; valid_ += n) {
    const int pos = first_ + valid_;
    n = std::min(kDraftRows, root - pos + 1);
    std::array<int32_t, kDraftRows> ids{};
    for (int i = 0; i < n; ++i) ids[i] = pos + i < root ? tokens_[pos + i] : token;
    run(valid_, 0, std::span(ids).first(n), pos, nullptr);
  }
}

// `tokens` as rows slot.. through the block, whose places are at.., and the last one's y to
// own(slot). The states before them are rows `before`.. of states_. A row of slot 0 is straight.
void DeviceDraftLayer::run(int at, int slot, std::span<const int32_t> tokens, int before,
                           const RowPath* path) {
  const int n = static_cast<int>(tokens.size());
  SB_CHECK(at >= 0 && at + n <= n_ctx_);
  DraftState about{{{n, at, slot}, {}, {}}, {n, 0, before}};
  std::copy(tokens.begin(), tokens.end(), about.block.tokens);
  const bool tree = path && !path->straight;
  if (tree) {
    about.block.tree.path[0] = packed_path(*path);
    about.block.tree.depth[0] = static_cast<uint8_t>(path->depth);
  }
  model_.rope->ensure(at + n - 1);
  store_value(model_.device, state_.data(), about);
  const Launches made_for{slot, grid_context(at + n, n_ctx_), tree};
  graphs_.run(made_for, [&] { launch(made_for); });
}

void DeviceDraftLayer::launch(const Launches& made_for) const {
  const kernels::Stream stream = model_.device.stream();
  const PassState& pass = state_.data()->block;  // on the device
  const Block& block = *block_;
  const float* ones = block.weights.layers()[0].attn_norm;
  const float eps = model_.config.norm_eps;

  // u = [e / rms(e); s / rms(s)]; h = W u
  float* e = block.work.prefill_h.data();
  kernels::embed_rows({&pass.pass, pass.tokens, model_.weights.embedding_type(),
                       model_.weights.embedding(), dim_, e, kDraftRows},
                      stream);
  const size_t half = draft_inputs(dim_) / 2;
  const kernels::RowsI8 first{dim_, u_q_.data(), u_d_.data()};
  const kernels::RowsI8 second{dim_, first.q + half, first.d + half / kQuantBlock};
  const kernels::RowsI8 both{2 * dim_, first.q, first.d};
  kernels::norm_quantize({&pass.pass, e, ones, eps, first, kDraftRows}, stream);
  kernels::norm_quantize({&state_.data()->before, states_.data(), ones, eps, second, kDraftRows},
                         stream);
  float* h = block.work.h.data();
  project_rows(&pass.pass, {true, both}, {&block.map},
               h + static_cast<size_t>(made_for.slot) * dim_, dim_, stream, kDraftRows);

  block.forward.decode({.pass = &pass.pass,
                        .tree = made_for.tree ? &pass.tree : nullptr,
                        .max_rows = kDraftRows,
                        .context = made_for.context},
                       1, 1);

  // y = norm(h) of the last row
  kernels::norm_floats({&pass.pass, h, block.weights.output_norm(), dim_, eps,
                        const_cast<float*>(own(made_for.slot)), 1, true},
                       stream);
}

}  // namespace specbound
