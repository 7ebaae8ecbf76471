#include "engine/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cuda/decode_passes.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_checks.h"
#include "engine/cuda/device_forward.h"
#include "engine/cuda/device_logits.h"
#include "engine/cuda/memory_plan.h"
#include "engine/cuda/prefill_matmuls.h"
#include "engine/kv_lengths.h"
#include "engine/layered_backend.h"
#include "error.h"

namespace specbound {
namespace {

class CudaBackend final : public LayeredBackend,
                          public DeviceSampling,
                          public Sequences,
                          public BackendInspection {
 public:
  // `host_lm_head`, where there is one, must outlive it.
  CudaBackend(std::unique_ptr<Device> device, const ModelConfig& config, DeviceWeights weights,
              const Matrix* host_lm_head, const float* rope_factors, const CudaOptions& options);
  ~CudaBackend() override;

  std::string description() const override;
  std::string device() const override;
  void embed(int slot, int32_t token) override;
  void set_row(int slot, std::span<const float> row) override;
  void run_layers(int slot, int n, int pos, int from, int to) override;
  void logits(int slot, int n, float* out) override;
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override;
  float confidence(std::span<const float> z, float temperature) const override;
  void set_exit_heads(const ExitHeads* heads, int shortlist) override;
  ExitPeak exit_check(int head, int slot, float temperature) override;
  ExitPeak exit_draw(int head, int slot, float temperature, float least, const DrawRule& rule,
                     std::span<const int32_t> text, std::optional<RowDraw>& draw) override;
  std::span<const float> exit_logits() const override { return checks_.logits(); }
  std::span<const int32_t> exit_ids() const override { return checks_.ids(); }
  void keep_state(int slot) override;
  void keep_path(int pos, const RowPath& path) override;
  void wait() override { device_->synchronize(); }
  Device* gpu() override { return device_.get(); }
  DeviceSampling* device_sampling() override { return this; }
  Sequences* sequences() override { return this; }
  int n_sequences() const override { return static_cast<int>(lengths_.size()); }
  void select(int sequence) override;
  void copy_prefix(int from, int n) override;
  void cut(int sequence, int n) override;
  size_t kv_bytes(int sequence) const override;
  void run_side_by_side(std::span<const Part> parts) override;
  const BackendInspection& inspect() const override { return *this; }
  std::span<const float> hidden(int slot) const override;
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override;

 private:
  const KvLengths& lengths() const override { return lengths_[selected_]; }
  KvLengths& lengths() override { return lengths_[selected_]; }
  void check_rows(int slot, int n) const;
  void begin_row(int slot, int32_t token, bool set);
  DecodeRows rows(int slot, int n, int pos) const;
  void embed_pending(int slot, int n) const;
  void run_prefill(std::span<const int32_t> tokens, bool kv_only) override;
  void logits_of_prefilled(int first, int n, float* out) override;
  DeviceExitChecks::Row checked_row(int slot) const;

  std::unique_ptr<Device> device_;
  DeviceWeights weights_;
  Workspace work_;
  DeviceKv kv_;
  std::vector<KvLengths> lengths_;  // [sequence]
  int selected_ = 0;                // of them
  DeviceRope rope_;
  DeviceForward forward_;
  std::unique_ptr<PrefillMatmuls> prefill_matmuls_;
  const DeviceModel parts_;  // what they look at
  DeviceLogits logits_;
  DeviceExitChecks checks_;
  DecodePasses passes_;
  DeviceMemory<ChunkState> chunk_;         // of a prompt
  PinnedMemory<ChunkState> staged_chunk_;  // the same, on its way there
  PinnedMemory<float> hidden_;             // (kMaxRows, dim): what hidden() gave last
  // [slot] not on the device yet: the pass through layer 1 embeds its rows itself,
  mutable std::array<bool, kMaxRows> pending_{};
  std::array<bool, kMaxRows> set_{};  // [slot] but where one of them is what set_row() gave.
  std::optional<Staging> set_rows_;   // on their way there, from the first one on
};

CudaBackend::CudaBackend(std::unique_ptr<Device> device, const ModelConfig& config,
                         DeviceWeights weights, const Matrix* host_lm_head,
                         const float* rope_factors, const CudaOptions& options)
    : LayeredBackend(config, checked_context(options.n_ctx, config)),
      device_(std::move(device)),
      weights_(std::move(weights)),
      work_(*device_, config_, n_ctx_, specbound::prefill_rows(n_ctx_)),
      kv_(*device_, config_, n_ctx_, options.n_sequences, options.kv),
      lengths_(options.n_sequences, KvLengths(config.n_layers)),
      rope_(*device_, config_, rope_factors, n_ctx_),
      forward_(*device_, config_, weights_, work_, kv_, rope_),
      prefill_matmuls_(make_prefill_matmuls(options.prefill, *device_, config_, work_)),
      parts_{*device_, config_,        weights_, host_lm_head, work_.h.data(),
             n_ctx_,   options.graphs, &rope_,   options.kv},
      logits_(parts_),
      checks_(parts_),
      passes_(*device_, forward_, work_.h.data(), n_ctx_, options.graphs),
      chunk_(*device_, 1),
      staged_chunk_(*device_, 1),
      hidden_(*device_, static_cast<size_t>(kMaxRows) * config.dim) {}

// Memory goes when nothing uses it any more, or when the device is lost.
CudaBackend::~CudaBackend() {
  try {
    device_->synchronize();
  } catch (const std::exception&) {
  }
}

std::string CudaBackend::description() const {
  return format("%s, weights %s, context %d, K/V %.1f MB", device().c_str(),
                weights_.description().c_str(), n_ctx_,
                static_cast<double>(kv_.next_sequence()) / 1e6) +
         (n_sequences() > 1 ? format(" each of %d texts", n_sequences()) : "");
}

std::string CudaBackend::device() const {
  const DeviceInfo& info = device_->info();
  return format("CUDA (%s, sm_%d, weights %s%s)", info.name.c_str(), info.sm,
                weights_.description().c_str(), kv_note(kv_.type()));
}

void CudaBackend::check_rows(int slot, int n) const {
  SB_CHECK(slot >= 0 && n >= 1 && slot + n <= kMaxRows);
}

void CudaBackend::embed(int slot, int32_t token) {
  check_rows(slot, 1);
  SB_CHECK(token >= 0 && token < config_.vocab_size);
  begin_row(slot, token, false);
}

void CudaBackend::set_row(int slot, std::span<const float> row) {
  check_rows(slot, 1);
  SB_CHECK(row.size() == static_cast<size_t>(config_.dim));
  if (!set_rows_) set_rows_.emplace(*device_, kMaxRows * row.size_bytes());
  std::memcpy(set_rows_->room(row.size_bytes()).data(), row.data(), row.size_bytes());
  set_rows_->send(work_.h.data() + slot * row.size(), row.size_bytes());
  begin_row(slot, 0, true);  // nobody asks for its token: no text goes on with it
}

// A row that is set is on the device; one that is embedded waits for its pass.
void CudaBackend::begin_row(int slot, int32_t token, bool set) {
  tokens_[slot] = token;
  paths_.reset(slot);
  pending_[slot] = !set;
  set_[slot] = set;
}

// With their tokens, which an embedding reads.
DecodeRows CudaBackend::rows(int slot, int n, int pos) const {
  return {slot, n, pos, selected_, &paths_[slot], &tokens_[slot]};
}

// For whoever looks at rows before layer 1, and beside those of set_row().
void CudaBackend::embed_pending(int slot, int n) const {
  const auto end = pending_.begin() + slot + n;
  for (auto first = pending_.begin() + slot; (first = std::find(first, end, true)) != end;) {
    const auto last = std::find(first, end, false);
    passes_.embed(
        rows(static_cast<int>(first - pending_.begin()), static_cast<int>(last - first), 0));
    first = std::fill_n(first, last - first, false);
  }
}

void CudaBackend::run_layers(int slot, int n, int pos, int from, int to) {
  check_rows(slot, n);
  SB_CHECK(pos >= 0 && pos + n <= n_ctx_);
  SB_CHECK(1 <= from && from <= to && to <= config_.n_layers);
  lengths().extend(pos, n, from, to);
  rope_.ensure(pos + n - 1);
  DecodeRows rows = this->rows(slot, n, pos);
  const auto set = set_.begin() + slot;
  if (from == 1 && std::find(set, set + n, true) == set + n) {
    std::fill_n(pending_.begin() + slot, n, false);
  } else {
    embed_pending(slot, n);
    rows.tokens = nullptr;
  }
  const float* h = work_.h.data();
  for (int last; from <= to; from = last + 1) {
    last = checks_.next_state(from, to);
    passes_.run(rows, from, last);
    checks_.passed(last, passes_.pass(), pos, n, h);
    rows.tokens = nullptr;
  }
  if (to == config_.n_layers) {
    checks_.ran(passes_.pass(), pos, std::span(tokens_).subspan(slot, n), h);
  }
}

void CudaBackend::select(int sequence) {
  SB_CHECK(sequence >= 0 && sequence < n_sequences());
  if (sequence == selected_) return;
  selected_ = sequence;
  forget_prefilled();
  checks_.change_text();
}

void CudaBackend::copy_prefix(int from, int n) {
  SB_CHECK(from >= 0 && from < n_sequences() && from != selected_);
  SB_CHECK(n >= 0 && n <= lengths_[from].at(config_.n_layers));
  kv_.copy_prefix(from, selected_, n);
  lengths().truncate(0);
  lengths().restore(n);
  checks_.change_text();
}

// The memory of all texts is one allocation: what one leaves is there for its next text.
void CudaBackend::cut(int sequence, int n) {
  SB_CHECK(sequence >= 0 && sequence < n_sequences());
  lengths_[sequence].truncate(n);
}

size_t CudaBackend::kv_bytes(int sequence) const {
  SB_CHECK(sequence >= 0 && sequence < n_sequences());
  return kv_cache_bytes(config_, lengths_[sequence].at(1), kv_.type());
}

void CudaBackend::run_side_by_side(std::span<const Part> parts) {
  const size_t n_parts = parts.size();
  SB_CHECK(n_parts >= 1 && n_parts <= kMaxRows);
  const RowPaths chain;
  std::array<SideBySideRow, kMaxRows> rows;
  int n = 0, longest = 0;  // longest: of the texts, with their rows
  for (size_t i = 0; i < n_parts; ++i) {
    const Part& part = parts[i];
    SB_CHECK(part.sequence >= 0 && part.sequence < n_sequences());
    const int root = lengths_[part.sequence].everywhere();
    SB_CHECK(part.n >= 1 && n + part.n <= kMaxRows && root + part.n <= n_ctx_);
    for (size_t j = 0; j < i; ++j) SB_CHECK(parts[j].sequence != part.sequence);
    for (int slot = 0; slot < part.n; ++slot, ++n) {
      const RowPath& path = part.paths ? part.paths[slot] : chain[slot];
      rows[n] = {tokens_[n], root, part.sequence, path};
    }
    longest = std::max(longest, root + part.n);
  }
  checks_.change_text();
  for (const Part& part : parts) {
    KvLengths& lengths = lengths_[part.sequence];
    lengths.extend(lengths.everywhere(), part.n, 1, config_.n_layers);
  }
  rope_.ensure(longest - 1);
  std::fill_n(pending_.begin(), n, false);
  passes_.run_side_by_side(std::span(rows).first(n), config_.n_layers);
}

void CudaBackend::keep_path(int pos, const RowPath& path) {
  kv_.keep_path(selected_, pos, path);
  lengths().truncate(pos + path.depth + 1);
  checks_.keep_path(pos, path);
}

void CudaBackend::logits(int slot, int n, float* out) {
  check_rows(slot, n);
  embed_pending(slot, n);
  logits_.logits(slot, n, out);
}

void CudaBackend::draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
                       RowDraw* draws) {
  check_rows(slot, n);
  embed_pending(slot, n);
  logits_.draw(slot, n, rule, text, draws);
}

float CudaBackend::confidence(std::span<const float> z, float temperature) const {
  SB_CHECK(!z.empty() && temperature > 0);
  return kernels_for(best_isa()).softmax_peak(z.data(), static_cast<int>(z.size()), temperature);
}

void CudaBackend::set_exit_heads(const ExitHeads* heads, int shortlist) {
  checks_.set(heads, shortlist);
}

DeviceExitChecks::Row CudaBackend::checked_row(int slot) const {
  return {kv_len(config_.n_layers), slot, paths_[slot], tokens_};
}

ExitPeak CudaBackend::exit_check(int head, int slot, float temperature) {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  return checks_.check(head, checked_row(slot), temperature);
}

ExitPeak CudaBackend::exit_draw(int head, int slot, float temperature, float least,
                                const DrawRule& rule, std::span<const int32_t> text,
                                std::optional<RowDraw>& draw) {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  return checks_.check_and_draw(head, checked_row(slot), temperature, least, rule, text, draw);
}

void CudaBackend::keep_state(int slot) {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  checks_.keep_state(slot);
}

void CudaBackend::logits_of_prefilled(int first, int n, float* out) {
  logits_.logits_of(work_.prefill_h.data() + static_cast<size_t>(first) * config_.dim, n, out);
}

void CudaBackend::run_prefill(std::span<const int32_t> tokens, bool kv_only) {
  const int n = static_cast<int>(tokens.size()), pos = kv_len(1);
  device_->synchronize();  // what a chunk that failed left under way reads what is staged
  ChunkState& staged = *staged_chunk_.data();
  staged.pass = {n, pos};
  for (int i = 0; i < n; i += kMaxRows) {
    staged.parts[i / kMaxRows] = {std::min(kMaxRows, n - i), pos + i};
  }
  for (int i = 0; i < n; ++i) {
    SB_CHECK(tokens[i] >= 0 && tokens[i] < config_.vocab_size);
    staged.tokens[i] = tokens[i];
  }
  lengths().extend(pos, n, 1, config_.n_layers);
  rope_.ensure(pos + n - 1);
  ChunkState* chunk = chunk_.data();
  device_->copy_in(chunk, &staged, offsetof(ChunkState, tokens) + n * sizeof(int32_t));
  kv_only = kv_only && !checks_.wants_states();
  float* h = work_.prefill_h.data();
  forward_.embed(&chunk->pass, chunk->tokens, n, h);
  for (int from = 1, last; from <= config_.n_layers; from = last + 1) {
    last = checks_.next_state(from, config_.n_layers);
    forward_.prefill(*chunk, {n, pos}, selected_, from, last, kv_only, *prefill_matmuls_);
    checks_.passed(last, &chunk->pass, pos, n, h);
  }
  if (!kv_only) checks_.ran(&chunk->pass, pos, tokens, h);
  device_->synchronize();  // the next chunk goes the same way
}

std::span<const float> CudaBackend::hidden(int slot) const {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  const size_t dim = config_.dim, at = slot * dim;
  device_->copy_out(hidden_.data() + at, work_.h.data() + at, dim * sizeof(float));
  device_->synchronize();
  return {hidden_.data() + at, dim};
}

void CudaBackend::read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const {
  const auto kv_dim = static_cast<size_t>(config_.kv_dim());
  SB_CHECK(pos >= 0 && pos < kv_len(layer) && k.size() == kv_dim && v.size() == kv_dim);
  kv_.read(layer, selected_, pos, k, v);
}

// Before anything is taken: `options` with as many sequences as fit.
CudaOptions checked(Device& device, const ModelConfig& config, const Weights& weights,
                    CudaOptions options) {
  SB_CHECK(options.n_sequences >= 1);
  require_kernels_for(config, weights, options.dtype);
  MemoryRequest request;
  request.dtype = options.dtype;
  request.n_ctx = checked_context(options.n_ctx, config);
  request.heads = options.heads_bytes;
  request.later = options.later_bytes;
  request.kv = options.kv;
  if (options.prefill == PrefillPath::kCublas) {
    request.cublas = PrefillCublas::bytes_needed(config, prefill_rows(request.n_ctx));
  }
  const size_t free = device.free_bytes();
  require_fits(config, weights, request, free, device.info().total_bytes);
  options.n_sequences = sequences_that_fit(config, weights, request, options.n_sequences, free);
  return options;
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(std::unique_ptr<Device> device,
                                           const ModelConfig& config, const Weights& weights,
                                           const CudaOptions& options) {
  const CudaOptions fitting = checked(*device, config, weights, options);
  DeviceWeights uploaded(*device, config, weights, {options.dtype, options.progress});
  const float* factors = weights.rope_factors_for(config, checked_context(options.n_ctx, config));
  return std::make_unique<CudaBackend>(std::move(device), config, std::move(uploaded),
                                       &weights.lm_head, factors, fitting);
}

std::unique_ptr<Backend> make_random_cuda_backend(std::unique_ptr<Device> device,
                                                  const ModelConfig& config,
                                                  const CudaOptions& options) {
  const CudaOptions fitting = checked(*device, config, random_weights(config), options);
  DeviceWeights random(*device, config, options.dtype, 1);
  return std::make_unique<CudaBackend>(std::move(device), config, std::move(random), nullptr,
                                       nullptr, fitting);
}

}  // namespace specbound
