#include "engine/cpu/draft_layer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {

DraftLayer::DraftLayer(const Backend& model, const Weights& weights, const HeadWeights& head,
                       ThreadPool& pool, const CpuOptions& options)
    : weights_(weights),
      kernels_(kernels_for(options.isa)),
      pool_(pool),
      form_(head),
      ones_(model.config().dim, 1.0f),
      norm_(head.norm),
      map_bias_(head.map_bias),
      embedding_norm_(form_.published ? head.embedding_norm : ones_.data()),
      state_norm_(form_.published ? head.state_norm : ones_.data()),
      dim_(model.config().dim),
      state_dim_(form_.state_dim(dim_)),
      eps_(model.config().norm_eps),
      rows_(kMaxRows, head.map.n_in),
      inputs_(static_cast<size_t>(kMaxRows) * dim_),
      text_(model.n_ctx(), form_.behind),
      own_(kMaxRows * round_up<size_t>(dim_, kQuantBlock)),
      said_(round_up<size_t>(dim_, kQuantBlock)) {
  const int n_ctx = model.n_ctx();
  const char* what = "draft layer";
  const size_t states = static_cast<size_t>(n_ctx) * state_dim_;
  require_memory(states * sizeof(float), "states of the draft layer");
  states_ = Pages<float>(states, what);
  if (!form_.adapter) {
    const PartitionedMatrix map{head.map};
    store_.emplace(std::span(&map, 1), options.repack, pool_, nullptr);
    map_ = store_->linear(head.map);
  }

  block_weights_.lm_head = weights.lm_head;  // nobody asks for its logits
  block_weights_.lm_head.n_out = 1;
  block_weights_.output_norm = norm_;
  block_weights_.token_embd = {DType::kF32, kMaxRows, dim_,
                               reinterpret_cast<const std::byte*>(inputs_.data())};
  block_weights_.layers = {draft_layer_block(head, ones_.data())};
  if (form_.eagle3) {
    attn_inputs_ = Pages<float>(kMaxRows * round_up<size_t>(2 * dim_, kQuantBlock), what);
    block_weights_.attn_input = attn_inputs_.data();
  }
  if (head.rope_theta == 0) {
    block_weights_.rope_factors = weights.rope_factors;
    block_weights_.rope_factors_long = weights.rope_factors_long;
  }
  CpuOptions block = options;
  block.first_layers = nullptr;  // those are the model's
  block.n_ctx = n_ctx;
  block.n_sequences = 1;
  block.beside = &model;
  block.progress = nullptr;
  block.kept_tiles = nullptr;
  ModelConfig config = draft_layer_config(model.config(), head);
  config.vocab_size = kMaxRows;
  block_ = make_cpu_backend(config, block_weights_, block);
}

void DraftLayer::ran(int pos, std::span<const int32_t> tokens, const float* h) {
  if (!text_.reaches(pos)) text_.begin_at(pos);
  text_.ran(pos, tokens);
  const int n = static_cast<int>(tokens.size());
  if (form_.mtp) {
    std::copy_n(h, static_cast<size_t>(n) * dim_, state(pos));
  } else if (form_.taken[0] == 0) {
    const FloatMode mode;
    for (int i = 0; i < n; ++i, h += dim_) {
      kernels_.rmsnorm(h, weights_.output_norm, eps_, dim_, state(pos + i));
    }
  }
}

void DraftLayer::passed(int l, int pos, const float* h, Slice mine) {
  const std::optional<int> part = form_.part_of(l);
  if (!part) return;
  for (int row = mine.begin; row < mine.end; ++row) {
    std::copy_n(h + static_cast<size_t>(row) * dim_, dim_, state(pos + row) + *part * dim_);
  }
}

void DraftLayer::keep_path(int pos, const RowPath& path) {
  text_.keep_path(pos, path);
  for (int d = 1; d <= path.depth; ++d) {
    if (path.slots[d] == d) continue;
    std::copy_n(state(pos + path.slots[d]), state_dim_, state(pos + d));
  }
}

// Row `row` of what W multiplies next; nullptr: no state.
void DraftLayer::set_input(int row, int32_t token, const float* state) {
  float* x = rows_.row(row);
  if (form_.eagle3) {
    read_row(weights_.token_embd, token, attn_input(row));
    if (state) {
      std::copy_n(state, state_dim_, x);
    } else {
      std::fill_n(x, state_dim_, 0.0f);
    }
    return;
  }
  read_row(weights_.token_embd, token, x);
  if (embedding_norm_) kernels_.rmsnorm(x, embedding_norm_, eps_, dim_, x);
  if (!state) {
    std::fill_n(x + dim_, dim_, 0.0f);
  } else if (state_norm_) {
    kernels_.rmsnorm(state, state_norm_, eps_, dim_, x + dim_);
  } else {
    std::copy_n(state, dim_, x + dim_);
  }
}

// Rows 0..n-1 of it: places pos..pos+n-1 of the text.
void DraftLayer::set_inputs(int n, int pos) {
  if (form_.adapter) {
    std::copy_n(state(pos), static_cast<size_t>(n) * dim_, inputs_.data());
    return;
  }
  for (int i = 0; i < n; ++i, ++pos) {
    set_input(i, text_.token(pos), pos > text_.first() ? state(pos - 1) : nullptr);
  }
}

// inputs_ (n, dim) = W rows_ + b; an adapter's are there already.
void DraftLayer::map_inputs(int n) {
  if (form_.adapter) return;
  const Rows rows = rows_.rows(n, map_.in_place.n_in, nullptr, 0);
  pool_.run([&](int thread) {
    const Slice mine = slice(n, thread, pool_.size());
    for (int r = mine.begin; r < mine.end && map_.int8(); ++r) {
      kernels_.quantize(rows_.row(r), r, 0, rows.quantized.n_blocks(), rows.quantized);
    }
    pool_.barrier();
    multiply(kernels_, map_, rows, {inputs_.data(), dim_}, false, thread, pool_.size());
    if (!map_bias_) return;
    add_bias(map_.slice_of(thread, pool_.size()), map_bias_, {inputs_.data(), dim_}, n);
  });
}

// What an eagle3 layer attends with: [w_e e / rms(e); w_h u / rms(u)], u of inputs_.
void DraftLayer::norm_inputs(int n) {
  const FloatMode mode;
  for (int r = 0; r < n; ++r) {
    float* x = attn_input(r);
    kernels_.rmsnorm(x, embedding_norm_, eps_, dim_, x);
    kernels_.rmsnorm(inputs_.data() + static_cast<size_t>(r) * dim_, state_norm_, eps_, dim_,
                     x + dim_);
  }
}

// K and V of all places before the last few, of which kMaxRows go through together with the root.
void DraftLayer::catch_up(int origin, int root) {
  std::array<int32_t, kMaxRows> ids;
  std::iota(ids.begin(), ids.end(), 0);
  while (root - (origin + text_.valid()) >= kMaxRows) {
    const FloatMode mode;
    set_inputs(kMaxRows, origin + text_.valid());
    map_inputs(kMaxRows);
    if (form_.eagle3) norm_inputs(kMaxRows);
    block_->prefill(ids);
    text_.caught_up(kMaxRows);
  }
}

const float* DraftLayer::look(const Row& looked) {
  const auto& [root, slot, path, token] = looked;
  int row = slot, n = 1;  // the last of n rows in block_
  if (slot == 0 && !text_.reaches(root)) text_.begin_at(root);
  const int origin = text_.origin(root);
  if (slot == 0) {
    text_.begin_root(root);
    block_->truncate(text_.valid());
    catch_up(origin, root);
    n = root - (origin + text_.valid()) + 1;
    row = n - 1;
  }
  const int at = root - origin + slot - (n - 1);  // of the first of n rows in block_
  block_->truncate(at);
  const bool drafted = form_.eagle3 && slot > 0;  // what W makes of states is there already
  if (form_.adapter) {
    set_inputs(n, origin + at);
  } else {
    const FloatMode mode;
    set_inputs(n - 1, origin + at);
    const float* before = slot > 0               ? own(path.slots[path.depth - 1])
                          : root > text_.first() ? state(root - 1)
                                                 : nullptr;
    set_input(n - 1, token, drafted ? nullptr : before);
    if (drafted) std::copy_n(before, dim_, inputs_.data());
  }
  if (!drafted) map_inputs(n);
  if (form_.eagle3) norm_inputs(n);
  for (int i = 0; i < n; ++i) block_->embed(row - (n - 1) + i, i);
  if (slot > 0 && !path.straight) block_->follow(slot, path.slots[path.depth - 1]);
  block_->run_layers(row - (n - 1), n, at, 1, 1);
  if (slot == 0) text_.end_root(root);
  float* const y = own(slot);
  const float* u = block_->inspect().hidden(row).data();
  const FloatMode mode;
  if (form_.says_normed) {
    kernels_.rmsnorm(u, norm_, eps_, dim_, y);
    return y;
  }
  std::copy_n(u, dim_, y);
  if (!form_.eagle3) return y;
  kernels_.rmsnorm(u, norm_, eps_, dim_, said_.data());
  return said_.data();
}

}  // namespace specbound
