// The CPU forward pass as one straight line, run in step by every thread of the pool. Each step
// names what it makes; a barrier ends the steps whose results other threads read.
#include "engine/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/cpu/cpu_topology.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_cache.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/rope.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "error.h"

namespace specbound {
namespace {

// Rows up to this many are prepared by every thread for itself, which costs less than a barrier.
constexpr int kPrivateRows = 2;
// Queries of one attention task: they share every K and V that is read.
constexpr int kTaskQueries = 8;

int padded(int n) {
  return round_up(n, kQuantBlock);
}

struct Layer {
  const LayerWeights* w;
  Linear wq, wk, wv, wo, w_gate, w_up, w_down;

  // Which inputs are needed quantized.
  bool qkv_int8() const { return wq.int8() || wk.int8() || wv.int8(); }
  bool ffn_int8() const { return w_gate.int8() || w_up.int8(); }
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ModelConfig& config, const Weights& weights, const CpuOptions& options);

  const ModelConfig& config() const override { return config_; }
  int n_ctx() const override { return n_ctx_; }
  std::string description() const override;
  void embed(int slot, int32_t token) override;
  void run_layers(int slot, int n, int pos, int from, int to) override;
  void logits(int slot, int n, float* out) override;
  float confidence(std::span<const float> z, float temperature) const override;
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override;
  int kv_len(int layer) const override;
  void truncate(int len) override;
  std::span<const float> hidden(int slot) const override;
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override;

 private:
  void forward(float* h, int n, int pos, int from, int to, bool kv_only);
  Rows prepare(int thread, const float* x, int ldx, const float* norm, int n, int k, bool int8);
  void finish_heads(int thread, const LayerWeights& w, int layer, int n, int pos, bool kv_only);
  void attend(int thread, int layer, int n, int pos);
  void add_bias(int thread, const float* bias, float* y, int n, int n_out, int ldy);

  ModelConfig config_;
  const Weights& weights_;
  const Kernels& kernels_;
  const int n_ctx_;
  ThreadPool pool_;
  Rope rope_;
  KvCache kv_;
  LinearStore store_;
  std::vector<Layer> layers_;
  Linear lm_head_;

  Pages<float> h_;                     // (kMaxRows, dim): the rows under way
  Pages<float> prefill_h_;             // (kPrefillChunk, dim)
  Pages<float> q_;                     // (rows, q_dim)
  Pages<float> k_, v_;                 // (rows, kv_dim)
  Pages<float> attended_;              // (rows, padded q_dim)
  Pages<float> gate_, up_;             // (rows, padded ffn_dim)
  RowBuffer shared_;                   // prepared rows, by all threads together
  std::vector<RowBuffer> own_;         // [thread] prepared rows, by each thread for itself
  std::vector<Pages<float>> scratch_;  // [thread] attention state
};

int checked_threads(int asked) {
  if (asked < 0 || asked > kMaxThreads) {
    throw Error(ErrorCode::kUsage,
                format("threads (-t): expected 1 to %d, or 0 for one per core; found %d",
                       kMaxThreads, asked));
  }
  return asked ? asked : usable_cores();
}

// Everything together, before any of it is taken. The rows under way are small beside the rest.
void check_memory(const ModelConfig& config, const Weights& weights, bool repack, int n_ctx) {
  const size_t kv = KvCache::bytes_needed(config, n_ctx);
  const size_t tiles = LinearStore::bytes_needed(weights, repack);
  require_memory(kv + tiles,
                 format("K/V cache %.1f MB, repacked weights %.1f MB",
                        static_cast<double>(kv) / 1e6, static_cast<double>(tiles) / 1e6));
}

CpuBackend::CpuBackend(const ModelConfig& config, const Weights& weights, const CpuOptions& options)
    : config_(config),
      weights_(weights),
      kernels_(kernels_for(options.isa)),
      n_ctx_(checked_context(options.n_ctx, config)),
      pool_(checked_threads(options.n_threads)),
      rope_(config, weights.rope_factors),
      kv_(config, n_ctx_),
      store_(weights, options.repack, pool_, options.progress) {
  for (const LayerWeights& w : weights.layers) {
    layers_.push_back({&w, store_.linear(w.wq), store_.linear(w.wk), store_.linear(w.wv),
                       store_.linear(w.wo), store_.linear(w.w_gate), store_.linear(w.w_up),
                       store_.linear(w.w_down)});
  }
  lm_head_ = store_.linear(weights.lm_head);

  const size_t rows = std::max(std::min(kPrefillChunk, n_ctx_), kMaxRows);
  const char* what = "working rows";
  const int widest = padded(std::max({config.dim, config.q_dim(), config.ffn_dim}));
  h_ = Pages<float>(static_cast<size_t>(kMaxRows) * config.dim, what);
  prefill_h_ = Pages<float>(rows * config.dim, what);
  q_ = Pages<float>(rows * config.q_dim(), what);
  k_ = Pages<float>(rows * config.kv_dim(), what);
  v_ = Pages<float>(rows * config.kv_dim(), what);
  attended_ = Pages<float>(rows * padded(config.q_dim()), what);
  gate_ = Pages<float>(rows * padded(config.ffn_dim), what);
  up_ = Pages<float>(rows * padded(config.ffn_dim), what);
  shared_ = RowBuffer(static_cast<int>(rows), widest);
  for (int t = 0; t < pool_.size(); ++t) {
    own_.emplace_back(kPrivateRows, widest);
    scratch_.emplace_back(kTaskQueries * static_cast<size_t>(padded(config.head_dim) + 2), what);
  }
}

std::string CpuBackend::description() const {
  return format("CPU (%s, %d thread%s), weights %s, context %d, K/V %.1f MB",
                isa_name(kernels_.isa), pool_.size(), pool_.size() == 1 ? "" : "s",
                store_.description().c_str(), n_ctx_, static_cast<double>(kv_.bytes()) / 1e6);
}

void CpuBackend::embed(int slot, int32_t token) {
  SB_CHECK(slot >= 0 && slot < kMaxRows && token >= 0 && token < config_.vocab_size);
  read_row(weights_.token_embd, token, h_.data() + static_cast<size_t>(slot) * config_.dim);
}

void CpuBackend::run_layers(int slot, int n, int pos, int from, int to) {
  SB_CHECK(slot >= 0 && n >= 1 && slot + n <= kMaxRows && pos >= 0 && pos + n <= n_ctx_);
  SB_CHECK(1 <= from && from <= to && to <= config_.n_layers);
  forward(h_.data() + static_cast<size_t>(slot) * config_.dim, n, pos, from, to, false);
}

void CpuBackend::prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
                         void* context) {
  const int total = static_cast<int>(tokens.size());
  SB_CHECK(kv_.len(1) == kv_.len(config_.n_layers) && kv_.len(1) + total <= n_ctx_);
  for (int done = 0; done < total;) {
    const int n = std::min(kPrefillChunk, total - done);
    for (int i = 0; i < n; ++i) {
      const int32_t token = tokens[done + i];
      SB_CHECK(token >= 0 && token < config_.vocab_size);
      read_row(weights_.token_embd, token,
               prefill_h_.data() + static_cast<size_t>(i) * config_.dim);
    }
    forward(prefill_h_.data(), n, kv_.len(1), 1, config_.n_layers, true);
    done += n;
    if (progress && !progress(context, done)) return;
  }
}

int CpuBackend::kv_len(int layer) const {
  SB_CHECK(1 <= layer && layer <= config_.n_layers);
  return kv_.len(layer);
}

void CpuBackend::truncate(int len) {
  SB_CHECK(len >= 0);
  for (int l = 1; l <= config_.n_layers; ++l) kv_.set_len(l, std::min(kv_.len(l), len));
}

std::span<const float> CpuBackend::hidden(int slot) const {
  SB_CHECK(slot >= 0 && slot < kMaxRows);
  return {h_.data() + static_cast<size_t>(slot) * config_.dim, static_cast<size_t>(config_.dim)};
}

void CpuBackend::read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const {
  const auto kv_dim = static_cast<size_t>(config_.kv_dim());
  SB_CHECK(pos >= 0 && pos < kv_len(layer) && k.size() == kv_dim && v.size() == kv_dim);
  kv_.read(layer, pos, k, v);
}

// h (n, dim), rows at positions pos.., through layers from..to. With kv_only the last layer stops
// at its K/V: no one reads the rows after it.
void CpuBackend::forward(float* h, int n, int pos, int from, int to, bool kv_only) {
  rope_.reach(pos + n - 1);
  for (int l = from; l <= to; ++l) {
    // Never growing with the layer: a row runs layer l after layer l - 1.
    SB_CHECK(kv_.len(l) == pos && (l == 1 || kv_.len(l - 1) >= pos + n));
    kv_.set_len(l, pos + n);
  }
  const int dim = config_.dim, q_dim = config_.q_dim(), kv_dim = config_.kv_dim();
  const int ffn_dim = config_.ffn_dim, attended_ld = padded(q_dim), ffn_ld = padded(ffn_dim);
  pool_.run([&](int thread) {
    const int threads = pool_.size();
    for (int l = from; l <= to; ++l) {
      const Layer& layer = layers_[l - 1];
      const LayerWeights& w = *layer.w;
      const bool stop_at_kv = kv_only && l == to;

      // x = norm(h); q, k, v = W x
      const Rows x = prepare(thread, h, dim, w.attn_norm, n, dim, layer.qkv_int8());
      if (!stop_at_kv) multiply(kernels_, layer.wq, x, q_.data(), q_dim, false, thread, threads);
      multiply(kernels_, layer.wk, x, k_.data(), kv_dim, false, thread, threads);
      multiply(kernels_, layer.wv, x, v_.data(), kv_dim, false, thread, threads);
      pool_.barrier();

      // bias, q/k norm, rope; K and V into the cache
      finish_heads(thread, w, l, n, pos, stop_at_kv);
      pool_.barrier();
      if (stop_at_kv) break;

      // attended = softmax(q K / sqrt(head_dim)) V
      attend(thread, l, n, pos);
      pool_.barrier();

      // h += Wo attended
      const Rows a =
          prepare(thread, attended_.data(), attended_ld, nullptr, n, q_dim, layer.wo.int8());
      multiply(kernels_, layer.wo, a, h, dim, true, thread, threads);
      pool_.barrier();
      if (w.bo) {
        add_bias(thread, w.bo, h, n, dim, dim);
        pool_.barrier();
      }

      // x = norm(h); act = silu(Wg x) * (Wu x)
      const Rows y = prepare(thread, h, dim, w.ffn_norm, n, dim, layer.ffn_int8());
      multiply(kernels_, layer.w_gate, y, gate_.data(), ffn_ld, false, thread, threads);
      multiply(kernels_, layer.w_up, y, up_.data(), ffn_ld, false, thread, threads);
      const Slice mine = output_slice(ffn_dim, thread, threads);
      for (int r = 0; r < n; ++r) {
        const size_t at = static_cast<size_t>(r) * ffn_ld + mine.begin;
        kernels_.silu_mul(gate_.data() + at, up_.data() + at, mine.end - mine.begin);
      }
      pool_.barrier();

      // h += Wd act
      const Rows act =
          prepare(thread, gate_.data(), ffn_ld, nullptr, n, ffn_dim, layer.w_down.int8());
      multiply(kernels_, layer.w_down, act, h, dim, true, thread, threads);
      pool_.barrier();
    }
  });
}

void CpuBackend::logits(int slot, int n, float* out) {
  SB_CHECK(slot >= 0 && n >= 1 && slot + n <= kMaxRows);
  const float* h = h_.data() + static_cast<size_t>(slot) * config_.dim;
  pool_.run([&](int thread) {
    const Rows x =
        prepare(thread, h, config_.dim, weights_.output_norm, n, config_.dim, lm_head_.int8());
    multiply(kernels_, lm_head_, x, out, config_.vocab_size, false, thread, pool_.size());
  });
}

float CpuBackend::confidence(std::span<const float> z, float temperature) const {
  SB_CHECK(!z.empty() && temperature > 0);
  return kernels_.softmax_peak(z.data(), static_cast<int>(z.size()), temperature);
}

// The rows x (n, ldx) as a matmul's input: normed where `norm` is given, quantized where asked.
Rows CpuBackend::prepare(int thread, const float* x, int ldx, const float* norm, int n, int k,
                         bool int8) {
  const bool together = n > kPrivateRows;
  RowBuffer& buffer = together ? shared_ : own_[thread];
  const Slice mine = together ? slice(n, thread, pool_.size()) : Slice{0, n};
  const Rows rows = buffer.rows(n, k, norm ? nullptr : x, ldx);
  for (int r = mine.begin; r < mine.end; ++r) {
    const float* row = x + static_cast<size_t>(r) * ldx;
    if (norm) {
      kernels_.rmsnorm(row, norm, config_.norm_eps, k, buffer.row(r));
      row = buffer.row(r);
    }
    if (int8) kernels_.quantize(row, r, rows.quantized);
  }
  if (together) pool_.barrier();
  return rows;
}

void CpuBackend::finish_heads(int thread, const LayerWeights& w, int layer, int n, int pos,
                              bool kv_only) {
  const int head_dim = config_.head_dim, n_heads = config_.n_heads;
  const auto finish = [&](float* head, const float* bias, const float* norm, int row) {
    for (int i = 0; bias && i < head_dim; ++i) head[i] += bias[i];
    if (norm) kernels_.rmsnorm(head, norm, config_.norm_eps, head_dim, head);
    rope_.rotate(head, pos + row);
  };
  const int first = kv_only ? n_heads : 0;  // heads of a row: queries, then keys with their values
  const int per_row = n_heads + config_.n_kv_heads - first;
  const Slice mine = slice(n * per_row, thread, pool_.size());
  for (int unit = mine.begin; unit < mine.end; ++unit) {
    const int row = unit / per_row, head = first + unit % per_row;
    if (head < n_heads) {
      const int at = head * head_dim;
      finish(q_.data() + static_cast<size_t>(row) * config_.q_dim() + at,
             w.bq ? w.bq + at : nullptr, w.q_norm, row);
      continue;
    }
    const int at = (head - n_heads) * head_dim;
    float* k = k_.data() + static_cast<size_t>(row) * config_.kv_dim() + at;
    float* v = v_.data() + static_cast<size_t>(row) * config_.kv_dim() + at;
    finish(k, w.bk ? w.bk + at : nullptr, w.k_norm, row);
    for (int i = 0; w.bv && i < head_dim; ++i) v[i] += w.bv[at + i];
    kernels_.store_kv(k, v, head_dim, pos + row, kv_.head(layer, head - n_heads));
  }
}

void CpuBackend::attend(int thread, int layer, int n, int pos) {
  const int head_dim = config_.head_dim, group = config_.n_heads / config_.n_kv_heads;
  const int queries = n * group;  // of one K/V head: rows, then heads of the group
  const int per_head = (queries + kTaskQueries - 1) / kTaskQueries;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  // Dealt in turn: later rows see more keys, so runs of them would be uneven.
  for (int task = thread; task < config_.n_kv_heads * per_head; task += pool_.size()) {
    const int kv_head = task / per_head, first = task % per_head * kTaskQueries;
    const int count = std::min(kTaskQueries, queries - first);
    Query query[kTaskQueries];
    for (int i = 0; i < count; ++i) {
      const int row = (first + i) / group, head = kv_head * group + (first + i) % group;
      query[i].q = q_.data() + static_cast<size_t>(row) * config_.q_dim() + head * head_dim;
      query[i].out =
          attended_.data() + static_cast<size_t>(row) * padded(config_.q_dim()) + head * head_dim;
      query[i].pos = pos + row;
    }
    kernels_.attention(kv_.head(layer, kv_head), query, count, head_dim, scale,
                       scratch_[thread].data());
  }
}

void CpuBackend::add_bias(int thread, const float* bias, float* y, int n, int n_out, int ldy) {
  const Slice mine = output_slice(n_out, thread, pool_.size());
  for (int r = 0; r < n; ++r) {
    float* row = y + static_cast<size_t>(r) * ldy;
    for (int i = mine.begin; i < mine.end; ++i) row[i] += bias[i];
  }
}

}  // namespace

int checked_context(int asked, const ModelConfig& config) {
  constexpr int kDefault = 4096, kMost = 1 << 24;
  if (asked < 0 || asked > kMost) {
    throw Error(ErrorCode::kUsage,
                format("context (-c): expected 1 to %d tokens, or 0 for the model's own; found %d",
                       kMost, asked));
  }
  return asked ? asked : std::min(config.max_seq_len, kDefault);
}

std::unique_ptr<Backend> make_cpu_backend(const ModelConfig& config, const Weights& weights,
                                          const CpuOptions& options) {
  if (!isa_supported(options.isa)) {
    throw Error(ErrorCode::kUsage, format("%s kernels were asked for, but this CPU has only %s",
                                          isa_name(options.isa), isa_name(best_isa())));
  }
  check_memory(config, weights, options.repack, checked_context(options.n_ctx, config));
  return std::make_unique<CpuBackend>(config, weights, options);
}

}  // namespace specbound
