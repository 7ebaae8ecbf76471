// Every thread prepares the one row for itself, multiplies its own outputs and takes the peaks of
// its own chunks of z. Chunks are fixed, and joined in order: the bits know nothing of threads.
#include "engine/cpu/exit_checks.h"

#include <algorithm>

#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {

ExitChecks::ExitChecks(const Backend& model, const Weights& weights, const Linear& lm_head,
                       const Kernels& kernels, ThreadPool& pool, const CpuOptions& options)
    : model_(model),
      config_(model.config()),
      weights_(weights),
      lm_head_(lm_head),
      kernels_(kernels),
      pool_(pool),
      options_(options) {}

void ExitChecks::clear() {
  file_ = nullptr;
  heads_.clear();
  store_.reset();
  draft_layers_.clear();
  shortlist_.reset();
  looked_ = nullptr;
  z_size_ = 0;
}

void ExitChecks::set(const ExitHeads* heads, int shortlist) {
  clear();
  if (!heads) return;
  const std::vector<int32_t>& ids = heads->shortlist();
  const int all = static_cast<int>(ids.size());
  SB_CHECK(shortlist >= 0 && shortlist <= all &&
           (shortlist % kTileOutputs == 0 || shortlist == all));

  // In the order that one check reads them.
  std::vector<PartitionedMatrix> matrices;
  int widest = config_.dim, most_inner = 0, longest_chain = 0;
  bool listed = false;
  for (const HeadWeights& head : heads->heads()) {
    switch (head.kind) {
      case HeadKind::kFull:
      case HeadKind::kEagle:     // DraftLayer
      case HeadKind::kMtp:       // DraftLayer
      case HeadKind::kKangaroo:  // DraftLayer
        break;
      case HeadKind::kLayer:  // DraftLayer
        listed = true;
        break;
      case HeadKind::kEagle3:  // DraftLayer, and
        matrices.push_back({head.lm_head, kPeakChunk});
        break;
      case HeadKind::kFolded:
        matrices.push_back({head.folded, kPeakChunk});
        matrices.back().matrix.n_out = shortlist;
        break;
      case HeadKind::kChained:
        listed = true;
        matrices.push_back({head.map});
        if (head.inner.n_out) matrices.insert(matrices.end(), {{head.inner}, {head.outer}});
        most_inner = std::max(most_inner, head.inner.n_out);
        widest = std::max({widest, 2 * config_.dim, head.inner.n_out});
        break;
      case HeadKind::kMedusa:
      case HeadKind::kHydra:
        for (const MedusaHead& one : head.medusa) {
          for (const MedusaHead::Block& block : one.blocks) {
            matrices.push_back({block.map});
            if (block.residual.n_out) matrices.push_back({block.residual});
            longest_chain = std::max(longest_chain, block.map.n_in);
          }
          if (one.lm_head.n_out) matrices.push_back({one.lm_head, kPeakChunk});
        }
    }
  }
  listed = listed && shortlist > 0;
  size_t bytes = LinearStore::bytes_needed(matrices, options_.repack);
  if (listed) bytes += Shortlist::bytes_needed(config_, weights_, shortlist, options_.repack);
  require_memory(bytes, format("repacked exit heads %.1f MB", static_cast<double>(bytes) / 1e6));
  const LinearStore& store = store_.emplace(matrices, options_.repack, pool_, nullptr);
  for (const HeadWeights& head : heads->heads()) {
    Head& to = heads_.emplace_back();
    to.kind = head.kind;
    to.tokens = head.tokens;
    to.lm_head = store.linear(head.lm_head);
    if (is_layer(head.kind)) continue;
    to.map = store.linear(head.map);
    Matrix folded = head.folded;
    folded.n_out = std::min(folded.n_out, shortlist);
    to.folded = store.linear(folded);
    to.inner = store.linear(head.inner);
    to.outer = store.linear(head.outer);
    for (const MedusaHead& one : head.medusa) {
      Medusa& made = to.medusa.emplace_back();
      for (const MedusaHead::Block& b : one.blocks) {
        made.blocks.push_back(
            {store.linear(b.map), b.bias, store.linear(b.residual), b.residual_bias});
      }
      made.lm_head = one.lm_head.n_out ? store.linear(one.lm_head) : lm_head_;
      made.lm_bias = one.lm_bias;
    }
  }
  if (listed) {
    shortlist_.emplace(config_, weights_, std::span(ids).first(static_cast<size_t>(shortlist)),
                       kernels_, pool_, options_.repack);
  }

  const char* what = "exit checks";
  const int ones = std::max(config_.dim, most_inner);
  states_ = Pages<float>((kMaxRows + 1) * round_up<size_t>(config_.dim, kQuantBlock), what);
  ones_ = Pages<float>(ones, what);
  std::fill_n(ones_.data(), ones, 1.0f);
  mapped_ = Pages<float>(2 * round_up<size_t>(config_.dim, kQuantBlock), what);
  chain_ = Pages<float>(round_up(longest_chain, kQuantBlock), what);
  inner_ = Pages<float>(round_up(most_inner, kQuantBlock), what);
  const int widest_z = std::max(config_.vocab_size, all);
  z_ = Pages<float>(widest_z, what);
  peaks_ = Pages<PeakChunk>(round_up(widest_z, kPeakChunk) / kPeakChunk, what);
  buffer_.clear();
  widest = std::max(widest, longest_chain);
  for (int t = 0; t < pool_.size(); ++t) buffer_.emplace_back(1, widest);
  std::map<int, DraftLayer> layers;  // all or none
  for (size_t i = 0; i < heads->heads().size(); ++i) {
    const HeadWeights& head = heads->heads()[i];
    if (!is_layer(head.kind) || (says_text(head.kind) && !shortlist_)) continue;
    layers.try_emplace(static_cast<int>(i), model_, weights_, head, pool_, options_);
  }
  draft_layers_.swap(layers);
  file_ = heads;
}

std::span<const float> ExitChecks::logits() const {
  if (looked_ && says_text(looked_->kind)) return shortlist_->logits();
  return {z_.data(), z_size_};
}

std::span<const int32_t> ExitChecks::ids() const {
  if (!looked_) return {};
  if (says_all(looked_->kind)) return looked_->tokens;
  if (says_text(looked_->kind)) return shortlist_->ids();
  return std::span(file_->shortlist()).first(z_size_);
}

void ExitChecks::keep_state(const float* h) {
  SB_CHECK(file_);
  const FloatMode mode;
  kernels_.rmsnorm(h, weights_.output_norm, config_.norm_eps, config_.dim, state(0));
}

// A row x (k) as a matmul's input.
Rows ExitChecks::input(int thread, const float* x, int k, bool int8) {
  const Rows rows = buffer_[thread].rows(1, k, x, k);
  if (int8) kernels_.quantize(x, 0, 0, rows.quantized.n_blocks(), rows.quantized);
  return rows;
}

// h / rms(h), followed by s if given, as a matmul's input.
Rows ExitChecks::normed(int thread, const float* h, const float* s, bool int8) {
  const int dim = config_.dim;
  RowBuffer& buffer = buffer_[thread];
  float* x = buffer.row(0);
  kernels_.rmsnorm(h, ones_.data(), config_.norm_eps, dim, x);
  if (s) std::copy_n(s, dim, x + dim);
  const Rows rows = buffer.rows(1, s ? 2 * dim : dim, nullptr, 0);
  if (int8) kernels_.quantize(x, 0, 0, rows.quantized.n_blocks(), rows.quantized);
  return rows;
}

// Leaves y = A u + D silu(C u) of u = [x; s] as the state after the row, and z = E_s y.
void ExitChecks::chained(const Head& head, int slot, const float* h, float temperature,
                         int thread) {
  const int dim = config_.dim, threads = pool_.size();
  const Rows u = normed(thread, h, state(slot), true);
  float* y = state(slot + 1);
  multiply(kernels_, head.map, u, {y, dim}, false, thread, threads);
  if (const int inner = head.inner.n_out()) {
    multiply(kernels_, head.inner, u, {inner_.data(), inner}, false, thread, threads);
    const Slice mine = head.inner.slice_of(thread, threads);
    kernels_.silu_mul(inner_.data() + mine.begin, ones_.data(), mine.end - mine.begin);
    pool_.barrier();
    const Rows c = input(thread, inner_.data(), inner, true);
    multiply(kernels_, head.outer, c, {y, dim}, true, thread, threads);
  }
  pool_.barrier();
  shortlist_->look(y, temperature, thread);
}

// z = V x + a, all of it when this returns, x with x = x + silu(W x + b) by each block, or the
// first one's R x + c in place of x.
void ExitChecks::medusa(const Medusa& head, const float* x, float* z, int thread) {
  const int dim = config_.dim, threads = pool_.size();
  float* y = mapped_.data();
  for (const Medusa::Block& block : head.blocks) {
    const bool mapped = block.residual.n_out() > 0;
    const Rows rows = input(thread, x, block.map.in_place.n_in,
                            block.map.int8() || (mapped && block.residual.int8()));
    multiply(kernels_, block.map, rows, {y, dim}, false, thread, threads);
    const Slice mine = block.map.slice_of(thread, threads);
    for (int i = mine.begin; i < mine.end; ++i) y[i] += block.bias[i];
    kernels_.silu_mul(y + mine.begin, ones_.data(), mine.end - mine.begin);
    if (mapped) multiply(kernels_, block.residual, rows, {y, dim}, true, thread, threads);
    const float* added = mapped ? block.residual_bias : x;
    for (int i = mine.begin; i < mine.end; ++i) y[i] += added[i];
    pool_.barrier();
    x = y;
    y = mapped_.data() + (y == mapped_.data() ? round_up<size_t>(dim, kQuantBlock) : 0);
  }
  const Rows rows = input(thread, x, dim, head.lm_head.int8());
  multiply(kernels_, head.lm_head, rows, {z, head.lm_head.n_out()}, false, thread, threads);
  const Slice mine = head.lm_head.slice_of(thread, threads);
  for (int i = mine.begin; i < mine.end && head.lm_bias; ++i) z[i] += head.lm_bias[i];
  pool_.barrier();  // slices of the model's are not whole chunks
}

// The state before the root and the embeddings of the path from the root to a row.
const float* ExitChecks::chain(const RowPath& path, std::span<const int32_t> tokens) {
  const FloatMode mode;
  const int dim = config_.dim;
  float* x = chain_.data();
  std::copy_n(state(0), dim, x);
  for (int d = 0; d <= path.depth; ++d) {
    read_row(weights_.token_embd, tokens[static_cast<size_t>(path.slots[d])], x += dim);
  }
  std::fill(x + dim, chain_.data() + round_up((path.depth + 2) * dim, kQuantBlock), 0.0f);
  return chain_.data();
}

// z = E y, all of it when this returns.
void ExitChecks::say(const Linear& lm_head, const float* y, float* z, int thread) {
  const Rows rows = input(thread, y, config_.dim, lm_head.int8());
  multiply(kernels_, lm_head, rows, {z, lm_head.n_out()}, false, thread, pool_.size());
  pool_.barrier();  // the model's has slices that are not whole chunks
}

ExitPeak ExitChecks::check(int index, const DraftLayer::Row& row, std::span<const int32_t> tokens,
                           const float* h, float temperature) {
  SB_CHECK(file_ && index >= 0 && index < static_cast<int>(heads_.size()) && temperature > 0);
  const Head& head = heads_[index];
  looked_ = &head;
  const float* y = nullptr;  // of a draft layer
  if (is_layer(head.kind)) {
    const auto layer = draft_layers_.find(index);
    SB_CHECK(layer != draft_layers_.end());
    y = layer->second.look(row);
  }
  if (head.kind == HeadKind::kLayer) {
    pool_.run([&](int thread) { shortlist_->look(y, temperature, thread); });
    return shortlist_->peak(temperature);
  }
  if (head.kind == HeadKind::kChained) {
    SB_CHECK(shortlist_);
    pool_.run([&](int thread) { chained(head, row.slot, h, temperature, thread); });
    return shortlist_->peak(temperature);
  }
  const bool full = head.kind == HeadKind::kFull, by_medusa = is_by_place(head.kind);
  const auto k = static_cast<size_t>(row.path.depth);  // of a medusa head, less 1
  SB_CHECK(!by_medusa || k < head.medusa.size());
  const float* x0 = head.kind == HeadKind::kHydra ? chain(row.path, tokens) : state(0);
  const Linear& last = by_medusa                        ? head.medusa[k].lm_head
                       : head.kind == HeadKind::kEagle3 ? head.lm_head
                       : says_all(head.kind)            ? lm_head_
                                                        : head.folded;
  const int n = last.n_out(), dim = config_.dim, threads = pool_.size();
  SB_CHECK(n > 0);
  z_size_ = static_cast<size_t>(n);
  float* z = z_.data();
  pool_.run([&](int thread) {
    if (full) {
      const Rows x = normed(thread, h, nullptr, head.map.int8());
      multiply(kernels_, head.map, x, {mapped_.data(), dim}, false, thread, threads);
      pool_.barrier();
      say(last, mapped_.data(), z, thread);
    } else if (by_medusa) {
      medusa(head.medusa[k], x0, z, thread);
    } else if (y) {
      say(last, y, z, thread);
    } else {
      const Rows x = normed(thread, h, nullptr, true);
      multiply(kernels_, last, x, {z, n}, false, thread, threads);
    }
    const Slice mine = slice(n, thread, threads, kPeakChunk);
    if (mine.begin == mine.end) return;
    if (const float cap = config_.final_softcap; cap > 0 && !is_published(head.kind)) {
      kernels_.softcap(z + mine.begin, cap, mine.end - mine.begin);
    }
    kernels_.peak_chunks(z + mine.begin, mine.end - mine.begin, temperature,
                         peaks_.data() + mine.begin / kPeakChunk);
  });

  const FloatMode mode;
  const int chunks = round_up(n, kPeakChunk) / kPeakChunk;
  ExitPeak peak;
  int place = 0;
  peak.confidence = kernels_.join_peaks(peaks_.data(), chunks, temperature, z, n, &place);
  peak.token = ids().empty() ? place : ids()[static_cast<size_t>(place)];
  return peak;
}

}  // namespace specbound
