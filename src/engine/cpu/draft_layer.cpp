#include "engine/cpu/draft_layer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {
namespace {

// A model of that block alone: no windows, no caps or scales of other layers' making.
ModelConfig block_config(const ModelConfig& model, const HeadWeights& head) {
  ModelConfig config = model;
  config.n_layers = 1;
  config.ffn_dim = head.block.w_gate.n_out;
  config.vocab_size = kMaxRows;
  config.activation = Activation::kSilu;
  config.embedding_scale = 1;
  config.window = 0;
  config.attn_softcap = 0;
  config.no_rope_step = 0;
  return config;
}

}  // namespace

DraftLayer::DraftLayer(const Backend& model, const Weights& weights, const HeadWeights& head,
                       Shortlist& shortlist, ThreadPool& pool, const CpuOptions& options)
    : weights_(weights),
      kernels_(kernels_for(options.isa)),
      pool_(pool),
      shortlist_(shortlist),
      norm_(head.norm),
      dim_(model.config().dim),
      eps_(model.config().norm_eps),
      ones_(dim_, 1.0f),
      rows_(kMaxRows, 2 * dim_),
      inputs_(static_cast<size_t>(kMaxRows) * dim_),
      tokens_(model.n_ctx()),
      own_(static_cast<size_t>(kMaxRows) * dim_) {
  const int n_ctx = model.n_ctx();
  const char* what = "draft layer";
  const size_t states = static_cast<size_t>(n_ctx) * dim_;
  require_memory(states * sizeof(float), "states of the draft layer");
  states_ = Pages<float>(states, what);
  const PartitionedMatrix map{head.map};
  store_.emplace(std::span(&map, 1), options.repack, pool_, nullptr);
  map_ = store_->linear(head.map);

  block_weights_.lm_head = weights.lm_head;  // nobody asks for its logits
  block_weights_.lm_head.n_out = 1;
  block_weights_.output_norm = norm_;
  block_weights_.token_embd = {DType::kF32, kMaxRows, dim_,
                               reinterpret_cast<const std::byte*>(inputs_.data())};
  block_weights_.rope_factors = weights.rope_factors;
  block_weights_.rope_factors_long = weights.rope_factors_long;
  block_weights_.layers = {head.block};
  block_weights_.layers[0].attn_norm = block_weights_.layers[0].ffn_norm = ones_.data();
  CpuOptions block = options;
  block.n_ctx = n_ctx;
  block.n_sequences = 1;
  block.beside = &model;
  block.progress = nullptr;
  block_ = make_cpu_backend(block_config(model.config(), head), block_weights_, block);
}

void DraftLayer::ran(int pos, std::span<const int32_t> tokens, const float* h) {
  if (pos > end_ || pos < first_) {
    first_ = end_ = pos;
    valid_ = 0;
  }
  const FloatMode mode;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int at = pos + static_cast<int>(i);
    tokens_[at] = tokens[i];
    kernels_.rmsnorm(h + i * dim_, weights_.output_norm, eps_, dim_, state(at));
  }
  // Behind a truncate() that is taken back the others are still there.
  end_ = std::max(end_, pos + static_cast<int>(tokens.size()));
  valid_ = std::min(valid_, pos - first_);
}

void DraftLayer::keep_path(int pos, const RowPath& path) {
  for (int d = 1; d <= path.depth; ++d) {
    tokens_[pos + d] = tokens_[pos + path.slots[d]];
    std::copy_n(state(pos + path.slots[d]), dim_, state(pos + d));
  }
}

// Row `row` of what W multiplies next; nullptr: no state.
void DraftLayer::set_input(int row, int32_t token, const float* state) {
  float* x = rows_.row(row);
  read_row(weights_.token_embd, token, x);
  kernels_.rmsnorm(x, ones_.data(), eps_, dim_, x);
  if (state) {
    kernels_.rmsnorm(state, ones_.data(), eps_, dim_, x + dim_);
  } else {
    std::fill_n(x + dim_, dim_, 0.0f);
  }
}

// Rows 0..n-1 of it: places pos..pos+n-1 of the text.
void DraftLayer::set_inputs(int n, int pos) {
  for (int i = 0; i < n; ++i, ++pos) {
    set_input(i, tokens_[pos], pos > first_ ? state(pos - 1) : nullptr);
  }
}

// inputs_ (n, dim) = W rows_.
void DraftLayer::map_inputs(int n) {
  const Rows rows = rows_.rows(n, 2 * dim_, nullptr, 0);
  pool_.run([&](int thread) {
    const Slice mine = slice(n, thread, pool_.size());
    for (int r = mine.begin; r < mine.end; ++r) {
      kernels_.quantize(rows_.row(r), r, 0, rows.quantized.n_blocks(), rows.quantized);
    }
    pool_.barrier();
    multiply(kernels_, map_, rows, {inputs_.data(), dim_}, false, thread, pool_.size());
  });
}

// K and V of all places before the last few, of which kMaxRows go through together with the root.
void DraftLayer::catch_up(int root) {
  std::array<int32_t, kMaxRows> ids;
  std::iota(ids.begin(), ids.end(), 0);
  while (root - (first_ + valid_) >= kMaxRows) {
    const FloatMode mode;
    set_inputs(kMaxRows, first_ + valid_);
    map_inputs(kMaxRows);
    block_->prefill(ids);
    valid_ += kMaxRows;
  }
}

ExitPeak DraftLayer::check(const Row& looked, float temperature) {
  const auto& [root, slot, path, token] = looked;
  int row = slot, n = 1;  // the last of n rows in block_
  if (slot == 0) {
    if (root > end_ || root < first_) {  // nothing is known of what stands before it
      first_ = end_ = root;
      valid_ = 0;
    }
    valid_ = std::min(valid_, root - first_);
    block_->truncate(valid_);
    catch_up(root);
    n = root - (first_ + valid_) + 1;
    row = n - 1;
  }
  const int at = root - first_ + slot - (n - 1);  // of the first of n rows in block_
  block_->truncate(at);
  {
    const FloatMode mode;
    set_inputs(n - 1, first_ + at);
    const float* before = slot > 0        ? own(path.slots[path.depth - 1])
                          : root > first_ ? state(root - 1)
                                          : nullptr;
    set_input(n - 1, token, before);
  }
  map_inputs(n);
  for (int i = 0; i < n; ++i) block_->embed(row - (n - 1) + i, i);
  if (slot > 0 && !path.straight) block_->follow(slot, path.slots[path.depth - 1]);
  block_->run_layers(row - (n - 1), n, at, 1, 1);
  if (slot == 0) valid_ = root - first_ + 1;
  float* const y = own(slot);
  {
    const FloatMode mode;
    kernels_.rmsnorm(block_->inspect().hidden(row).data(), norm_, eps_, dim_, y);
  }
  pool_.run([&](int thread) { shortlist_.look(y, temperature, thread); });
  return shortlist_.peak(temperature);
}

}  // namespace specbound
