#include "engine/cuda/device_draft_layer.h"

#include <algorithm>
#include <array>
#include <optional>

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
        weights(model.device, source.config, source.weights, {.help = kHeadsHelp}),
        work(model.device, source.config, model.n_ctx, kMaxRows),
        kv(model.device, source.config, model.n_ctx, 1, model.kv),
        own_rope(head.rope_theta > 0 ? std::make_unique<DeviceRope>(model.device, source.config,
                                                                    nullptr, model.n_ctx)
                                     : nullptr),
        rope(own_rope ? *own_rope : *model.rope),
        forward(model.device, source.config, weights, work, kv, rope) {
    const float* ones = weights.layers()[0].attn_norm;
    const auto vector = [&](const float* source_vector) {
      return upload_floats(model.device, source_vector, model.config.dim, memory);
    };
    const bool published = is_published(head.kind);
    embedding_norm = published ? vector(head.embedding_norm) : ones;
    state_norm = published ? vector(head.state_norm) : ones;
    map_bias = vector(head.map_bias);
    if (head.map.n_out == 0) return;
    map = upload_matrix(model.device, head.map, takes_int8_rows(head.map.type), memory);
  }

  DraftBlock source;
  DeviceWeights weights;
  std::vector<DeviceMemory<std::byte>> memory;  // of what follows
  const float *embedding_norm, *state_norm;     // (dim) or null
  const float* map_bias;                        // (dim) or null
  DeviceMatrix map;                             // W
  Workspace work;
  DeviceKv kv;
  std::unique_ptr<DeviceRope> own_rope;  // null: it rotates as the model does
  DeviceRope& rope;
  DeviceForward forward;
};

DeviceDraftLayer::DeviceDraftLayer(const DeviceModel& model, const HeadWeights& head)
    : model_(model),
      form_(head),
      dim_(model.config.dim),
      state_dim_(form_.state_dim(dim_)),
      n_ctx_(model.n_ctx),
      state_(model.device, 1),
      graphs_(model.device, model.graphs),
      text_(n_ctx_, form_.behind) {
  SB_CHECK(model.rope != nullptr);
  const DraftSizes sizes(model.config, head, n_ctx_);
  const auto take = [&](DeviceMemory<float>& memory, size_t n) {
    if (n > 0) memory = DeviceMemory<float>(model.device, n);
  };
  take(states_, sizes.states);
  take(own_, sizes.own);
  take(said_, sizes.said);
  take(inputs_, sizes.inputs);
  if (sizes.widest > 0) rows_ = DeviceRows(model.device, kDraftRows, sizes.widest);
  block_ = std::make_unique<Block>(model, head);
  begin_at(0);
}

DeviceDraftLayer::~DeviceDraftLayer() = default;

// Nothing is known of what stands before `pos`: there is no state, which counts as zeros.
void DeviceDraftLayer::begin_at(int pos) {
  text_.begin_at(pos);
  model_.device.clear(state(pos), state_dim_ * sizeof(float));
}

void DeviceDraftLayer::ran(const kernels::Pass* pass, int pos, std::span<const int32_t> tokens,
                           const float* h) {
  if (!text_.reaches(pos)) begin_at(pos);
  text_.ran(pos, tokens);
  if (form_.taken[0] == 0) {
    const float* norm = form_.mtp ? nullptr : model_.weights.output_norm();
    kernels::norm_floats({pass, h, norm, dim_, model_.config.norm_eps, state(pos + 1),
                          static_cast<int>(tokens.size())},
                         model_.device.stream());
  }
}

void DeviceDraftLayer::passed(int l, const kernels::Pass* pass, int pos, int n, const float* h) {
  const std::optional<int> part = form_.part_of(l);
  if (!part) return;
  kernels::norm_floats({pass, h, nullptr, dim_, model_.config.norm_eps,
                        state(pos + 1) + static_cast<size_t>(*part) * dim_, n, false, state_dim_},
                       model_.device.stream());
}

void DeviceDraftLayer::keep_path(int pos, const RowPath& path) {
  if (path.straight) return;
  text_.keep_path(pos, path);
  kernels::keep_rows({state(pos + 1), state_dim_, path.depth, packed_path(path)},
                     model_.device.stream());
}

void DeviceDraftLayer::look(const Row& looked) {
  const auto& [root, slot, path, tokens] = looked;
  const int32_t token = tokens[static_cast<size_t>(slot)];
  if (slot == 0 && !text_.reaches(root)) begin_at(root);
  const int origin = text_.origin(root);
  const int own_state = form_.adapter ? 1 : 0;  // a row is made of the state after its own place
  if (slot > 0) {
    const int before = form_.adapter ? root + slot + 1 : path.slots[path.depth - 1];
    return run(root - origin + slot, slot, {&token, 1}, before, &path);
  }
  text_.begin_root(root);
  for (int n, pos = origin + text_.valid(); pos <= root; pos += n) {
    n = std::min(kDraftRows, root - pos + 1);
    std::array<int32_t, kDraftRows> ids{};
    for (int i = 0; i < n; ++i) ids[i] = pos + i < root ? text_.token(pos + i) : token;
    run(pos - origin, 0, std::span(ids).first(n), pos + own_state, nullptr);
  }
  text_.end_root(root);
}

// `tokens` as rows slot.. through the block, whose places are at.., and what comes of the last one
// to own(slot). They are made of rows `before`.. of states_ or, behind a row that was looked at, of
// own_. A row of slot 0 is straight.
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
  block_->rope.ensure(at + n - 1);
  store_value(model_.device, state_.data(), about);
  const Launches made_for{slot, grid_context(at + n, n_ctx_), tree, n == 1 ? 1 : kDraftRows};
  graphs_.run(made_for, [&] { launch(made_for); });
}

// to (n_rows, ld) = the rows pass->slot.. of `rows` (slots, n), normed where there is a norm.
void DeviceDraftLayer::place(const kernels::Pass* pass, const float* rows, int n, const float* norm,
                             float* to, int ld) const {
  kernels::norm_floats({pass, rows, norm, n, model_.config.norm_eps, to, kDraftRows, false, ld},
                       model_.device.stream());
}

void DeviceDraftLayer::launch(const Launches& made_for) const {
  const kernels::Stream stream = model_.device.stream();
  const PassState& pass = state_.data()->block;  // on the device
  const Block& block = *block_;
  const int slot = made_for.slot;
  float *h = block.work.h.data(), *e = block.work.prefill_h.data();
  if (!form_.adapter) {
    kernels::embed_rows({&pass.pass, pass.tokens, model_.weights.embedding_type(),
                         model_.weights.embedding(), dim_, e, kDraftRows},
                        stream);
  }
  make_rows(slot, e, h);
  DecodePass rows{.pass = &pass.pass,
                  .tree = made_for.tree ? &pass.tree : nullptr,
                  .max_rows = made_for.max_rows,
                  .context = made_for.context};
  PreparedRows attn;
  if (!block.weights.layers()[0].attn_norm) {
    attn = attn_inputs(slot, e, h);
    rows.attn_rows = &attn;
  }
  block.forward.decode(rows, 1, 1);

  // Of the last row: u, or w u / rms(u); eagle3: both
  const auto keep = [&](bool normed, float* to) {
    kernels::norm_floats({&pass.pass, h, normed ? block.weights.output_norm() : nullptr, dim_,
                          model_.config.norm_eps, to, 1, true},
                         stream);
  };
  keep(form_.says_normed, own(slot));
  if (form_.eagle3) keep(true, said_.data());
}

// h, from `slot` on, = W [e; s] + b, normed or not; eagle3: W s, and behind rows that were looked
// at the state itself, as an adapter's always is. e lies from `slot` on too.
void DeviceDraftLayer::make_rows(int slot, const float* e, float* h) const {
  const Block& block = *block_;
  const kernels::Pass *pass = &state_.data()->block.pass, *before = &state_.data()->before;
  const float* states = slot > 0 && !form_.adapter ? own_.data() : states_.data();
  const size_t first = static_cast<size_t>(slot) * dim_;
  if (form_.adapter || (form_.eagle3 && slot > 0)) {
    return place(before, states, dim_, nullptr, h + first, dim_);
  }
  if (block.map_bias) {
    const size_t rows = slot > 0 ? 1 : kDraftRows;
    model_.device.clear(h + first, rows * dim_ * sizeof(float));
  }
  const PreparedRows x = map_inputs(e, states);
  if (block.map_bias) {
    project_residual_rows(pass, x, block.map, block.map_bias, h, model_.device.stream(),
                          kDraftRows);
  } else {
    project_rows(pass, x, {&block.map}, h + first, dim_, model_.device.stream(), kDraftRows);
  }
}

// What W multiplies.
PreparedRows DeviceDraftLayer::map_inputs(const float* e, const float* states) const {
  const Block& block = *block_;
  const kernels::Stream stream = model_.device.stream();
  const kernels::Pass *pass = &state_.data()->block.pass, *before = &state_.data()->before;
  const bool int8 = block.map.int8();
  const int n_in = block.map.n_in();
  if (int8 && block.embedding_norm && !form_.eagle3 && dim_ % kQuantBlock == 0) {
    const PreparedRows both = rows_.rows(n_in, true);
    const size_t half = static_cast<size_t>(dim_) * kDraftRows;
    const kernels::RowsI8 first{dim_, both.i8.q, both.i8.d};
    const kernels::RowsI8 second{dim_, first.q + half, first.d + half / kQuantBlock};
    const float eps = model_.config.norm_eps;
    kernels::norm_quantize({pass, e, block.embedding_norm, eps, first, kDraftRows}, stream);
    kernels::norm_quantize({before, states, block.state_norm, eps, second, kDraftRows}, stream);
    return both;
  }
  float* x = inputs_.data();
  if (form_.eagle3) {
    place(before, states, n_in, nullptr, x, n_in);
  } else {
    place(pass, e, dim_, block.embedding_norm, x, n_in);
    place(before, states, dim_, block.state_norm, x + dim_, n_in);
  }
  return prepare_rows(rows_, int8, pass, kDraftRows, x, n_in, n_in, stream);
}

// What q, k and v multiply where the block has no norm before them: u itself or, eagle3,
// [w_e e / rms(e); w_h u / rms(u)].
PreparedRows DeviceDraftLayer::attn_inputs(int slot, const float* e, const float* h) const {
  const Block& block = *block_;
  const kernels::Pass* pass = &state_.data()->block.pass;
  const bool int8 = block.weights.layers()[0].wq.int8();
  const float* x = h + static_cast<size_t>(slot) * dim_;
  const int n_in = block.weights.layers()[0].wq.n_in();
  if (form_.eagle3) {
    place(pass, e, dim_, block.embedding_norm, inputs_.data(), n_in);
    place(pass, h, dim_, block.state_norm, inputs_.data() + dim_, n_in);
    x = inputs_.data();
  }
  return prepare_rows(rows_, int8, pass, kDraftRows, x, n_in, n_in, model_.device.stream());
}

}  // namespace specbound
