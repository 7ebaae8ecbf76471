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
  draft_layer_.reset();
  shortlist_.reset();
  looked_.reset();
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
  int widest = config_.dim, most_inner = 0;
  bool listed = false;
  for (const HeadWeights& head : heads->heads()) {
    switch (head.kind) {
      case HeadKind::kFull:
        break;
      case HeadKind::kLayer:  // DraftLayer
        listed = true;
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
    if (head.kind == HeadKind::kLayer) continue;
    to.map = store.linear(head.map);
    Matrix folded = head.folded;
    folded.n_out = std::min(folded.n_out, shortlist);
    to.folded = store.linear(folded);
    to.inner = store.linear(head.inner);
    to.outer = store.linear(head.outer);
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
  mapped_ = Pages<float>(round_up(config_.dim, kQuantBlock), what);
  inner_ = Pages<float>(round_up(most_inner, kQuantBlock), what);
  const int widest_z = std::max(config_.vocab_size, all);
  z_ = Pages<float>(widest_z, what);
  peaks_ = Pages<PeakChunk>(round_up(widest_z, kPeakChunk) / kPeakChunk, what);
  buffer_.clear();
  for (int t = 0; t < pool_.size(); ++t) buffer_.emplace_back(1, widest);
  if (const int layer = heads->find(HeadKind::kLayer, 0); layer >= 0 && shortlist_) {
    draft_layer_.emplace(model_, weights_, heads->heads()[layer], *shortlist_, pool_, options_);
  }
  file_ = heads;
}

std::span<const float> ExitChecks::logits() const {
  if (looked_ && has_state(*looked_)) return shortlist_->logits();
  return {z_.data(), z_size_};
}

std::span<const int32_t> ExitChecks::ids() const {
  if (!looked_ || *looked_ == HeadKind::kFull) return {};
  if (has_state(*looked_)) return shortlist_->ids();
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

ExitPeak ExitChecks::check(int index, const DraftLayer::Row& row, const float* h,
                           float temperature) {
  SB_CHECK(file_ && index >= 0 && index < static_cast<int>(heads_.size()) && temperature > 0);
  const Head& head = heads_[index];
  looked_ = head.kind;
  if (head.kind == HeadKind::kLayer) {
    SB_CHECK(draft_layer_);
    return draft_layer_->check(row, temperature);
  }
  if (head.kind == HeadKind::kChained) {
    SB_CHECK(shortlist_);
    pool_.run([&](int thread) { chained(head, row.slot, h, temperature, thread); });
    return shortlist_->peak(temperature);
  }
  const bool full = head.kind == HeadKind::kFull;
  const Linear& last = full ? lm_head_ : head.folded;
  const int n = last.n_out(), dim = config_.dim, threads = pool_.size();
  SB_CHECK(n > 0);
  z_size_ = static_cast<size_t>(n);
  float* z = z_.data();
  pool_.run([&](int thread) {
    if (full) {
      const Rows x = normed(thread, h, nullptr, head.map.int8());
      multiply(kernels_, head.map, x, {mapped_.data(), dim}, false, thread, threads);
      pool_.barrier();
      const Rows y = input(thread, mapped_.data(), dim, last.int8());
      multiply(kernels_, last, y, {z, n}, false, thread, threads);
      pool_.barrier();  // its slices are not whole chunks
    } else {
      const Rows x = normed(thread, h, nullptr, true);
      multiply(kernels_, last, x, {z, n}, false, thread, threads);
    }
    const Slice mine = slice(n, thread, threads, kPeakChunk);
    if (mine.begin == mine.end) return;
    if (const float cap = config_.final_softcap; cap > 0) {
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
  peak.token = full ? place : file_->shortlist()[place];
  return peak;
}

}  // namespace specbound
