// The CPU forward pass as one straight line, run in step by every thread of the pool. Each step
// names what it makes; a barrier ends the steps whose results other threads read. Where a GPU has
// the first layers, a pass goes there first.
#include "engine/cpu/cpu_backend.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cpu/attention.h"
#include "engine/cpu/cpu_layer.h"
#include "engine/cpu/cpu_plan.h"
#include "engine/cpu/exit_checks.h"
#include "engine/cpu/experts.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_cache.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/pass_rows.h"
#include "engine/cpu/rope.h"
#include "engine/cpu/thread_pool.h"
#include "engine/cpu/working_rows.h"
#include "engine/kv_lengths.h"
#include "engine/layered_backend.h"
#include "engine/pages.h"
#include "error.h"

namespace specbound {
namespace {

// Up to so many floats of normed rows are made by every thread for itself, which costs less than a
// barrier.
constexpr int kPrivateFloats = 4096;

class CpuBackend final : public LayeredBackend,
                         public Sequences,
                         public ChunkRows,
                         public BackendInspection {
 public:
  CpuBackend(const ModelConfig& config, const Weights& weights, const CpuOptions& options,
             int n_sequences);

  std::string description() const override;
  std::string device() const override;
  int first_layers() const override { return n_first_ < config_.n_layers ? n_first_ : 0; }
  void embed(int slot, int32_t token) override;
  void set_row(int slot, std::span<const float> row) override {
    SB_CHECK(slot >= 0 && slot < kMaxRows && row.size() == static_cast<size_t>(config_.dim));
    std::ranges::copy(row, h_.data() + static_cast<size_t>(slot) * config_.dim);
    tokens_[slot] = 0;  // nobody asks: no text goes on with it
    paths_.reset(slot);
  }
  void run_layers(int slot, int n, int pos, int from, int to) override;
  void logits(int slot, int n, float* out) override;
  float confidence(std::span<const float> z, float temperature) const override;
  void set_exit_heads(const ExitHeads* heads, int shortlist) override;
  ExitPeak exit_check(int head, int slot, float temperature) override;
  std::span<const float> exit_logits() const override { return checks_.logits(); }
  std::span<const int32_t> exit_ids() const override { return checks_.ids(); }
  bool says_tokens_of_text() const override { return true; }
  void keep_state(int slot) override;
  void keep_path(int pos, const RowPath& path) override;
  void truncate(int len) override {
    LayeredBackend::truncate(len);
    if (len == 0) checks_.forget_text();
  }
  Device* gpu() override { return first_layers_ ? &first_layers_->gpu() : nullptr; }
  Sequences* sequences() override { return first_layers_ ? nullptr : this; }
  int n_sequences() const override { return static_cast<int>(sequences_.size()); }
  void select(int sequence) override;
  void copy_prefix(int from, int n) override;
  void cut(int sequence, int n) override;
  size_t kv_bytes(int sequence) const override { return sequences_[sequence].kv.bytes_held(); }
  void run_side_by_side(std::span<const Sequences::Part> parts) override;
  ChunkRows* chunk_rows() override { return this; }
  int most_rows() const override { return std::max(std::min(kPrefillChunk, n_ctx_), kMaxRows); }
  void embed_chunk(std::span<const ChunkRows::Part> parts) override;
  void run_chunk(int to) override;
  std::span<const float> chunk_row(int row) const override;
  const BackendInspection& inspect() const override { return *this; }
  std::span<const float> hidden(int slot) const override;
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override;

 private:
  static std::shared_ptr<ThreadPool> threads_for(const CpuOptions& options);
  void embed_row(int32_t token, float* h);
  const KvLengths& lengths() const override { return sequences_[selected_].lengths; }
  KvLengths& lengths() override { return sequences_[selected_].lengths; }
  void forward(float* h, const PassRows& rows, int from, int to, bool kv_only);
  void run_prefill(std::span<const int32_t> tokens, bool kv_only) override;
  void logits_of_prefilled(int first, int n, float* out) override;
  void logits_of(const float* h, int n, float* out);
  Rows normed(int thread, const float* x, const float* norm, int n, bool int8);
  Rows attn_rows(int thread, const float* h, const CpuLayer& layer, int n);
  void quantize_together(int thread, const Rows& rows);
  void finish_heads(int thread, const WorkingRows::Heads& at, const LayerWeights& w, int layer,
                    const PassRows& rows, bool kv_only);
  void finish_head(const WorkingRows::Heads& at, const LayerWeights& w, int layer,
                   const PassRows& rows, int row, int head);
  void add_normed(int thread, const float* norm, float* h, int n);

  const Weights& weights_;
  const Kernels& kernels_;
  const std::shared_ptr<FirstLayers> first_layers_;
  const int n_first_;                    // of them; 0: none
  std::shared_ptr<ThreadPool> threads_;  // maybe another backend's too
  ThreadPool& pool_;
  Rope rope_;
  std::vector<Sequence> sequences_;
  int selected_ = 0;  // of them
  // Each thread makes whole heads, keys and values with the queries that attend to them: it needs
  // nobody else's until the heads are mixed.
  const bool own_heads_;
  LinearStore store_;
  std::vector<CpuLayer> layers_;
  Linear lm_head_;
  std::optional<Experts> experts_;  // of a mixture
  Attention attention_;
  ExitChecks checks_;

  Pages<float> h_;               // (kMaxRows, dim): the rows under way
  Pages<float> prefill_h_;       // (kPrefillChunk, dim)
  std::vector<TextRows> chunk_;  // those of embed_chunk(), which lie there too
  int chunk_layers_ = 0;         // that they have seen
  WorkingRows work_;
};

// Those of `options.beside`, or new ones.
std::shared_ptr<ThreadPool> CpuBackend::threads_for(const CpuOptions& options) {
  const auto* beside = dynamic_cast<const CpuBackend*>(options.beside);
  return beside ? beside->threads_
                : std::make_shared<ThreadPool>(checked_threads(options.n_threads));
}

CpuBackend::CpuBackend(const ModelConfig& config, const Weights& weights, const CpuOptions& options,
                       int n_sequences)
    : LayeredBackend(config, checked_context(options.n_ctx, config)),
      weights_(weights),
      kernels_(kernels_for(options.isa)),
      first_layers_(options.first_layers),
      n_first_(layers_elsewhere(options)),
      threads_(threads_for(options)),
      pool_(*threads_),
      rope_(config, weights.rope_factors_for(config, n_ctx_)),
      own_heads_(heads_divide(config, pool_.size())),
      store_(partitioned_matrices(weights, n_first_, own_heads_ ? config.head_dim : kTileOutputs),
             options.repack, pool_, options.progress, options.kept_tiles),
      attention_(config_, kernels_, pool_, own_heads_, n_ctx_),
      checks_(*this, weights, lm_head_, kernels_, pool_, options) {
  for (int i = 0; i < n_sequences; ++i) {
    sequences_.push_back(
        {KvCache(config, n_ctx_, n_first_, options.kv), KvLengths(config.n_layers)});
  }
  for (const LayerWeights& w : weights.layers) layers_.emplace_back(store_, w);
  lm_head_ = store_.linear(weights.lm_head);

  const auto dim = static_cast<size_t>(config.dim);
  h_ = Pages<float>(kMaxRows * dim, "working rows");
  prefill_h_ = Pages<float>(most_rows() * dim, "working rows");
  const CpuLayer& any = layers_.back();  // one that runs here: all of them are dealt alike
  work_ = WorkingRows(config, weights, any, pool_.size(), own_heads_, most_rows());
  if (config.n_experts > 0) experts_.emplace(config_, kernels_, pool_, any.experts, most_rows());
}

std::string CpuBackend::description() const {
  const size_t first = first_layers_ ? first_layers_->kv_bytes() : 0;
  const double bytes = static_cast<double>(first + sequences_[0].kv.bytes());
  return format("%s, weights %s, context %d, K/V %.1f MB", device().c_str(),
                store_.description().c_str(), n_ctx_, bytes / 1e6) +
         (n_sequences() > 1 ? format(" each of %d texts", n_sequences()) : "");
}

std::string CpuBackend::device() const {
  const std::string cpu = format("CPU (%s, %d thread%s%s)", isa_name(kernels_.isa), pool_.size(),
                                 pool_.size() == 1 ? "" : "s", kv_note(sequences_[0].kv.type()));
  return first_layers_ ? first_layers_->device() + " + " + cpu : cpu;
}

void CpuBackend::embed(int slot, int32_t token) {
  SB_CHECK(slot >= 0 && slot < kMaxRows);
  embed_row(token, h_.data() + static_cast<size_t>(slot) * config_.dim);
  tokens_[slot] = token;
  paths_.reset(slot);
}

void CpuBackend::run_layers(int slot, int n, int pos, int from, int to) {
  SB_CHECK(slot >= 0 && n >= 1 && slot + n <= kMaxRows && pos >= 0 && pos + n <= n_ctx_);
  SB_CHECK(1 <= from && from <= to && to <= config_.n_layers);
  float* h = h_.data() + static_cast<size_t>(slot) * config_.dim;
  const TextRows rows{&sequences_[selected_], n, pos, &paths_[slot], slot};
  forward(h, PassRows(rows), from, to, false);
  if (to == config_.n_layers) checks_.ran(pos, std::span(tokens_).subspan(slot, n), h);
}

// From the root on, so that no row is written over before it has moved.
void CpuBackend::keep_path(int pos, const RowPath& path) {
  if (first_layers_) first_layers_->keep_path(pos, path);
  for (int l = n_first_ + 1; l <= config_.n_layers && !path.straight; ++l) {
    for (int d = 1; d <= path.depth; ++d) {
      if (path.slots[d] != d) sequences_[selected_].kv.copy(l, pos + path.slots[d], pos + d);
    }
  }
  lengths().truncate(pos + path.depth + 1);
  checks_.keep_path(pos, path);
}

void CpuBackend::select(int sequence) {
  SB_CHECK(sequence >= 0 && sequence < n_sequences());
  if (sequence == selected_) return;
  selected_ = sequence;
  forget_prefilled();
  checks_.change_text();
}

void CpuBackend::copy_prefix(int from, int n) {
  SB_CHECK(from >= 0 && from < n_sequences() && from != selected_);
  SB_CHECK(n >= 0 && n <= sequences_[from].lengths.at(config_.n_layers));
  sequences_[selected_].kv.reach(n);
  sequences_[selected_].kv.copy_prefix(sequences_[from].kv, n);
  lengths().truncate(0);
  lengths().restore(n);
  checks_.change_text();
}

void CpuBackend::cut(int sequence, int n) {
  SB_CHECK(sequence >= 0 && sequence < n_sequences());
  Sequence& it = sequences_[sequence];
  it.lengths.truncate(n);
  it.kv.give_back(it.lengths.at(1));
  if (n == 0 && sequence == selected_) checks_.forget_text();
}

void CpuBackend::run_side_by_side(std::span<const Sequences::Part> parts) {
  const size_t n_parts = parts.size();
  SB_CHECK(n_parts >= 1 && n_parts <= kMaxRows);
  std::array<TextRows, kMaxRows> texts;
  int n = 0;
  for (size_t i = 0; i < n_parts; ++i) {
    const Sequences::Part& part = parts[i];
    SB_CHECK(part.sequence >= 0 && part.sequence < n_sequences());
    Sequence& sequence = sequences_[part.sequence];
    texts[i] = {&sequence, part.n, sequence.lengths.everywhere(), part.paths, 0, n};
    n += part.n;
    SB_CHECK(part.n >= 1 && n <= kMaxRows && texts[i].pos + part.n <= n_ctx_);
    for (size_t j = 0; j < i; ++j) SB_CHECK(parts[j].sequence != part.sequence);
  }
  checks_.change_text();
  forward(h_.data(), PassRows(std::span(texts).first(n_parts)), 1, config_.n_layers, false);
}

void CpuBackend::logits_of_prefilled(int first, int n, float* out) {
  logits_of(prefill_h_.data() + static_cast<size_t>(first) * config_.dim, n, out);
}

void CpuBackend::embed_chunk(std::span<const ChunkRows::Part> parts) {
  SB_CHECK(!parts.empty());
  forget_prefilled();
  chunk_layers_ = 0;
  chunk_.clear();
  int first = 0;
  for (const ChunkRows::Part& part : parts) {
    SB_CHECK(part.sequence >= 0 && part.sequence < n_sequences());
    Sequence& sequence = sequences_[part.sequence];
    const int n = static_cast<int>(part.tokens.size()), pos = sequence.lengths.everywhere();
    SB_CHECK(n >= 1 && first + n <= most_rows() && pos + n <= n_ctx_);
    for (const TextRows& other : chunk_) SB_CHECK(other.sequence != &sequence);
    for (int i = 0; i < n; ++i) {
      embed_row(part.tokens[i], prefill_h_.data() + size_t(first + i) * config_.dim);
    }
    chunk_.push_back({&sequence, n, pos, nullptr, 0, first});
    first += n;
  }
  checks_.change_text();
}

void CpuBackend::run_chunk(int to) {
  SB_CHECK(!chunk_.empty() && chunk_layers_ < to && to <= config_.n_layers);
  const int from = std::exchange(chunk_layers_, to) + 1;
  // The layers of a GPU have one text.
  const PassRows rows = first_layers_ ? PassRows(chunk_[0]) : PassRows(std::span(chunk_));
  forward(prefill_h_.data(), rows, from, to, false);
}

std::span<const float> CpuBackend::chunk_row(int row) const {
  SB_CHECK(!chunk_.empty() && row >= 0 && row < chunk_.back().first + chunk_.back().n);
  const auto dim = static_cast<size_t>(config_.dim);
  return {prefill_h_.data() + static_cast<size_t>(row) * dim, dim};
}

void CpuBackend::run_prefill(std::span<const int32_t> tokens, bool kv_only) {
  chunk_.clear();
  const int n = static_cast<int>(tokens.size());
  for (int i = 0; i < n; ++i) embed_row(tokens[i], prefill_h_.data() + size_t(i) * config_.dim);
  const int pos = kv_len(1);
  kv_only = kv_only && !checks_.wants_states();
  const TextRows rows{&sequences_[selected_], n, pos};
  forward(prefill_h_.data(), PassRows(rows), 1, config_.n_layers, kv_only);
  if (!kv_only) checks_.ran(pos, tokens, prefill_h_.data());
}

std::span<const float> CpuBackend::hidden(int slot) const {
  SB_CHECK(slot >= 0 && slot < kMaxRows);
  return {h_.data() + static_cast<size_t>(slot) * config_.dim, static_cast<size_t>(config_.dim)};
}

void CpuBackend::read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const {
  const auto kv_dim = static_cast<size_t>(config_.kv_dim());
  SB_CHECK(pos >= 0 && pos < kv_len(layer) && k.size() == kv_dim && v.size() == kv_dim);
  if (layer <= n_first_) return first_layers_->read_kv(layer, pos, k, v);
  sequences_[selected_].kv.read(layer, pos, k, v);
}

// h (dim) = the embedding of `token`, scaled.
void CpuBackend::embed_row(int32_t token, float* h) {
  SB_CHECK(token >= 0 && token < config_.vocab_size);
  checks_.meet(token);
  read_row(weights_.token_embd, token, h);
  if (config_.embedding_scale == 1) return;
  for (int i = 0; i < config_.dim; ++i) h[i] *= config_.embedding_scale;
}

// h (n, dim) through layers from..to. With kv_only the last layer stops at its K/V: no one reads
// the rows after it.
void CpuBackend::forward(float* h, const PassRows& rows, int from, int to, bool kv_only) {
  const int n = rows.n();
  for (const TextRows& text : rows.texts()) {
    rope_.ensure(text.pos + text.n - 1);
    text.sequence->lengths.extend(text.pos, text.n, from, to);
    text.sequence->kv.reach(text.pos + text.n);
  }
  const TextRows* const alone = rows.alone();  // exit heads look on
  while (from <= std::min(to, n_first_)) {
    const int last = checks_.next_state(from, std::min(to, n_first_));
    first_layers_->run(h, n, alone->paths, alone->slot, alone->pos, from, last);
    checks_.passed(last, alone->pos, h, {0, n});
    from = last + 1;
  }
  if (from > to) return;
  attention_.plan(rows);
  const int dim = config_.dim, q_dim = config_.q_dim(), ffn_dim = config_.ffn_dim;
  // Where a thread's own heads are whole blocks, it quantizes them itself.
  const bool blocks = config_.head_dim % kQuantBlock == 0;
  const auto activate_mul =
      config_.activation == Activation::kGelu ? kernels_.gelu_mul : kernels_.silu_mul;
  pool_.run([&](int thread) {
    const int threads = pool_.size();
    const WorkingRows::Heads at = work_.heads(thread);
    for (int l = from; l <= to; ++l) {
      const CpuLayer& layer = layers_[l - 1];
      const LayerWeights& w = *layer.w;
      const bool stop_at_kv = kv_only && l == to;

      // x = norm(h); q, k, v = W x
      const Rows x = attn_rows(thread, h, layer, n);
      if (!stop_at_kv) multiply(kernels_, layer.wq, x, at.q, false, thread, threads);
      multiply(kernels_, layer.wk, x, at.k, false, thread, threads);
      multiply(kernels_, layer.wv, x, at.v, false, thread, threads);
      if (!own_heads_) pool_.barrier();

      // bias, q/k norm, rope; K and V into the cache
      finish_heads(thread, at, w, l, rows, stop_at_kv);
      if (!own_heads_) pool_.barrier();
      if (stop_at_kv) break;

      // attended = softmax(softcap(score_scale q K)) V
      const Rows a = work_.attended.rows(n, q_dim, nullptr, 0);
      attention_.run(thread, at.q, l, rows, work_.attended,
                     layer.wo.int8() && blocks ? &a : nullptr);
      pool_.barrier();
      if (layer.wo.int8() && !blocks) quantize_together(thread, a);

      // h += Wo attended; or by way of a post norm
      const Outputs wo_to{w.post_attn_norm ? work_.added.data() : h, dim};
      multiply(kernels_, layer.wo, a, wo_to, !w.post_attn_norm, thread, threads);
      if (w.bo) add_bias(layer.wo.slice_of(thread, threads), w.bo, wo_to, n);
      pool_.barrier();
      if (w.post_attn_norm) add_normed(thread, w.post_attn_norm, h, n);

      if (ffn_dim == 0) continue;  // an adapter's block: attention alone
      // h += what the experts of each row give of norm(h)
      if (experts_) {
        const bool int8 = layer.experts.router.int8();
        experts_->run(thread, layer.experts, normed(thread, h, w.ffn_norm, n, int8), h, n);
        if (alone) checks_.passed(l, alone->pos, h, slice(n, thread, threads));
        continue;
      }

      // x = norm(h); act = activation(Wg x) * (Wu x)
      const Rows y = normed(thread, h, w.ffn_norm, n, layer.ffn_int8());
      const Rows act = work_.gate.rows(n, ffn_dim, nullptr, 0);
      const Slice mine = layer.w_gate.slice_of(thread, threads);
      const int width = mine.end - mine.begin;
      const bool int8 = layer.w_down.int8();  // then nobody else reads floats
      const Outputs up{work_.own_up[thread].data(), width, mine.begin};
      const Outputs gate = int8 ? Outputs{work_.own_gate[thread].data(), width, mine.begin}
                                : Outputs{work_.gate.row(0), act.ld};
      multiply(kernels_, layer.w_gate, y, gate, false, thread, threads);
      multiply(kernels_, layer.w_up, y, up, false, thread, threads);
      for (int r = 0; r < n; ++r) {
        activate_mul(gate.at(r, mine.begin), up.at(r, mine.begin), width);
        if (!int8) continue;
        kernels_.quantize(gate.at(r, mine.begin), r, mine.begin / kQuantBlock,
                          mine.end / kQuantBlock, act.quantized);
      }
      pool_.barrier();

      // h += Wd act; or by way of a post norm
      const Outputs down_to{w.post_ffn_norm ? work_.added.data() : h, dim};
      multiply(kernels_, layer.w_down, act, down_to, !w.post_ffn_norm, thread, threads);
      pool_.barrier();
      if (w.post_ffn_norm) add_normed(thread, w.post_ffn_norm, h, n);
      if (alone) checks_.passed(l, alone->pos, h, slice(n, thread, threads));
    }
  });
}

void CpuBackend::logits(int slot, int n, float* out) {
  SB_CHECK(slot >= 0 && n >= 1 && slot + n <= kMaxRows);
  logits_of(h_.data() + static_cast<size_t>(slot) * config_.dim, n, out);
}

// out (n, vocab_size) of the rows h (n, dim), n <= kMaxRows.
void CpuBackend::logits_of(const float* h, int n, float* out) {
  pool_.run([&](int thread) {
    const Rows x = normed(thread, h, weights_.output_norm, n, lm_head_.int8());
    const Outputs z{out, config_.vocab_size};
    multiply(kernels_, lm_head_, x, z, false, thread, pool_.size());
    if (config_.final_softcap == 0) return;
    const Slice mine = lm_head_.slice_of(thread, pool_.size());
    for (int r = 0; r < n; ++r) {
      kernels_.softcap(z.at(r, mine.begin), config_.final_softcap, mine.end - mine.begin);
    }
  });
}

float CpuBackend::confidence(std::span<const float> z, float temperature) const {
  SB_CHECK(!z.empty() && temperature > 0);
  return kernels_.softmax_peak(z.data(), static_cast<int>(z.size()), temperature);
}

void CpuBackend::set_exit_heads(const ExitHeads* heads, int shortlist) {
  checks_.set(heads, shortlist);
}

ExitPeak CpuBackend::exit_check(int head, int slot, float temperature) {
  SB_CHECK(slot >= 0 && slot < kMaxRows);
  const DraftLayer::Row row{kv_len(config_.n_layers), slot, paths_[slot], tokens_[slot]};
  return checks_.check(head, row, tokens_, hidden(slot).data(), temperature);
}

void CpuBackend::keep_state(int slot) {
  checks_.keep_state(hidden(slot).data());
}

// The rows x (n, dim) normed, or as they are without a norm, as a matmul's input.
Rows CpuBackend::normed(int thread, const float* x, const float* norm, int n, bool int8) {
  const int dim = config_.dim;
  const bool together = n > kMaxRows || (n > 2 && n * dim > kPrivateFloats);
  RowBuffer& buffer = together ? work_.shared : work_.own[thread];
  const Slice mine = together ? slice(n, thread, pool_.size()) : Slice{0, n};
  const Rows rows = buffer.rows(n, dim, nullptr, 0);
  for (int r = mine.begin; r < mine.end; ++r) {
    const float* row = x + static_cast<size_t>(r) * dim;
    if (norm) {
      kernels_.rmsnorm(row, norm, config_.norm_eps, dim, buffer.row(r));
    } else {
      std::copy_n(row, dim, buffer.row(r));
    }
    if (int8) kernels_.quantize(buffer.row(r), r, 0, rows.quantized.n_blocks(), rows.quantized);
  }
  if (together) pool_.barrier();
  return rows;
}

// What q, k and v multiply: the rows h normed, or what stands in their place.
Rows CpuBackend::attn_rows(int thread, const float* h, const CpuLayer& layer, int n) {
  if (!weights_.attn_input) return normed(thread, h, layer.w->attn_norm, n, layer.qkv_int8());
  const int n_in = layer.w->wq.n_in;
  const Rows rows =
      work_.attn_input.rows(n, n_in, weights_.attn_input, round_up(n_in, kQuantBlock));
  if (layer.qkv_int8()) quantize_together(thread, rows);
  return rows;
}

void CpuBackend::quantize_together(int thread, const Rows& rows) {
  const QuantRows& to = rows.quantized;
  const Slice mine = slice(to.n_rows, thread, pool_.size());
  for (int r = mine.begin; r < mine.end; ++r) {
    kernels_.quantize(rows.x + static_cast<size_t>(r) * rows.ld, r, 0, to.n_blocks(), to);
  }
  pool_.barrier();
}

// Bias, norm and rope of a head of one row: queries come first, then keys, each with its values,
// which go into the cache.
void CpuBackend::finish_head(const WorkingRows::Heads& at, const LayerWeights& w, int layer,
                             const PassRows& rows, int row, int head) {
  const int head_dim = config_.head_dim;
  const auto finish = [&](float* x, const float* bias, const float* norm) {
    for (int i = 0; bias && i < head_dim; ++i) x[i] += bias[i];
    if (norm) kernels_.rmsnorm(x, norm, config_.norm_eps, head_dim, x);
    if (!config_.rotates(layer)) return;
    rope_.rotate(kernels_, x, rows.position(row), config_.rotation_of(layer));
  };
  if (head < config_.n_heads) {
    const int first = head * head_dim;
    finish(at.q.at(row, first), w.bq ? w.bq + first : nullptr, w.q_norm);
    return;
  }
  const int kv_head = head - config_.n_heads, first = kv_head * head_dim;
  float *k = at.k.at(row, first), *v = at.v.at(row, first);
  finish(k, w.bk ? w.bk + first : nullptr, w.k_norm);
  for (int i = 0; w.bv && i < head_dim; ++i) v[i] += w.bv[first + i];
  kernels_.store_kv(k, v, head_dim, rows.place(row), rows.sequence_of(row).kv.head(layer, kv_head));
}

void CpuBackend::finish_heads(int thread, const WorkingRows::Heads& at, const LayerWeights& w,
                              int layer, const PassRows& rows, bool kv_only) {
  const int n = rows.n(), n_heads = config_.n_heads, n_kv_heads = config_.n_kv_heads;
  if (!own_heads_) {
    const int first = kv_only ? n_heads : 0, per_row = n_heads + n_kv_heads - first;
    const Slice mine = slice(n * per_row, thread, pool_.size());
    for (int unit = mine.begin; unit < mine.end; ++unit) {
      finish_head(at, w, layer, rows, unit / per_row, first + unit % per_row);
    }
    return;
  }
  const Slice queries = kv_only ? Slice{0, 0} : slice(n_heads, thread, pool_.size());
  const Slice keys = slice(n_kv_heads, thread, pool_.size());
  for (int row = 0; row < n; ++row) {
    for (int i = queries.begin; i < queries.end; ++i) finish_head(at, w, layer, rows, row, i);
    for (int i = keys.begin; i < keys.end; ++i) finish_head(at, w, layer, rows, row, n_heads + i);
  }
}

// h += norm(added) for the rows h (n, dim), each by one thread.
void CpuBackend::add_normed(int thread, const float* norm, float* h, int n) {
  const size_t dim = config_.dim;
  const Slice mine = slice(n, thread, pool_.size());
  for (int r = mine.begin; r < mine.end; ++r) {
    float *y = work_.added.data() + r * dim, *to = h + r * dim;
    kernels_.rmsnorm(y, norm, config_.norm_eps, config_.dim, y);
    for (size_t i = 0; i < dim; ++i) to[i] += y[i];
  }
  pool_.barrier();
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const ModelConfig& config, const Weights& weights,
                                          const CpuOptions& options) {
  if (!isa_supported(options.isa)) {
    throw Error(ErrorCode::kUsage, format("%s kernels were asked for, but this CPU has only %s",
                                          isa_name(options.isa), isa_name(best_isa())));
  }
  SB_CHECK(options.n_sequences >= 1 && layers_elsewhere(options) <= config.n_layers);
  return std::make_unique<CpuBackend>(config, weights, options,
                                      sequences_in_memory(config, weights, options));
}

}  // namespace specbound
