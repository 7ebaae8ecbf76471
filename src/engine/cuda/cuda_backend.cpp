#include "engine/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <compare>

#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_checks.h"
#include "engine/cuda/device_forward.h"
#include "engine/cuda/device_logits.h"
#include "engine/cuda/memory_plan.h"
#include "engine/cuda/prefill_matmuls.h"
#include "engine/kv_lengths.h"
#include "error.h"

namespace specbound {
namespace {

// What a graph of layers is made for.
struct Stretch {
  int from, to;
  int context;  // positions that attention's grid has room for
  bool tree;    // chains have kernels that know of none
  auto operator<=>(const Stretch&) const = default;
};

class CudaBackend final : public Backend, public DeviceSampling, public BackendInspection {
 public:
  // `host_lm_head`, where there is one, and `rope_factors` must outlive it.
  CudaBackend(std::unique_ptr<Device> device, const ModelConfig& config, DeviceWeights weights,
              const Matrix* host_lm_head, const float* rope_factors, const CudaOptions& options);
  ~CudaBackend() override;

  const ModelConfig& config() const override { return config_; }
  int n_ctx() const override { return n_ctx_; }
  std::string description() const override;
  std::string device() const override;
  void embed(int slot, int32_t token) override;
  void follow(int slot, int parent) override { paths_.follow(slot, parent); }
  void run_layers(int slot, int n, int pos, int from, int to) override;
  void logits(int slot, int n, float* out) override;
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override;
  float confidence(std::span<const float> z, float temperature) const override;
  void set_exit_heads(const ExitHeads* heads, int shortlist) override;
  bool can_look_with(HeadKind kind) const override { return kind != HeadKind::kLayer; }
  ExitPeak exit_check(int head, int slot, float temperature) override;
  ExitPeak exit_draw(int head, int slot, float temperature, const DrawRule& rule,
                     std::span<const int32_t> text, RowDraw& draw) override;
  std::span<const float> exit_logits() const override { return checks_.logits(); }
  std::span<const int32_t> exit_ids() const override { return checks_.ids(); }
  void keep_state(int slot) override;
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override;
  void prefill_rows(std::span<const int32_t> tokens) override;
  void prefill_logits(int first, int n, float* out) override;
  int kv_len(int layer) const override { return kv_lengths_.at(layer); }
  void skip_layers(int, int n, int pos, int from, int to) override {
    kv_lengths_.extend(pos, n, from, to);
  }
  void keep_path(int pos, int slot) override;
  void truncate(int len) override { kv_lengths_.truncate(len); }
  void restore(int len) override { kv_lengths_.restore(len); }
  void wait() override { device_->synchronize(); }
  Device* gpu() override { return device_.get(); }
  DeviceSampling* device_sampling() override { return this; }
  const BackendInspection& inspect() const override { return *this; }
  std::span<const float> hidden(int slot) const override;
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override;

 private:
  void check_rows(int slot, int n) const;
  bool is_tree(int slot, int n) const;
  void store_pass(int slot, int n, int pos) const;
  void embed_pending(int slot, int n) const;
  void prefill_chunk(std::span<const int32_t> tokens, bool kv_only);
  int grid_context(int positions) const;

  std::unique_ptr<Device> device_;
  ModelConfig config_;
  const int n_ctx_;
  DeviceWeights weights_;
  Workspace work_;
  DeviceKv kv_;
  KvLengths kv_lengths_;
  DeviceRope rope_;
  DeviceForward forward_;
  std::unique_ptr<PrefillMatmuls> prefill_matmuls_;
  DeviceLogits logits_;
  DeviceExitChecks checks_;
  GraphCache<Stretch> graphs_;
  DeviceMemory<PassState> pass_;              // of decode
  DeviceMemory<kernels::Pass> prefill_pass_;  // of a chunk
  DeviceMemory<int32_t> prefill_tokens_;      // (kPrefillChunk)
  PinnedMemory<int32_t> staged_tokens_;       // the same, on their way there
  int prefilled_rows_ = 0;                    // of work_.prefill_h, that went through all layers
  PinnedMemory<float> hidden_;                // (kMaxRows, dim): what hidden() gave last
  std::array<int32_t, kMaxRows> tokens_{};    // [slot] embedded last
  RowPaths paths_;                            // of the same rows
  // [slot] not on the device yet: the pass through layer 1 embeds its rows itself.
  mutable std::array<bool, kMaxRows> pending_{};
};

CudaBackend::CudaBackend(std::unique_ptr<Device> device, const ModelConfig& config,
                         DeviceWeights weights, const Matrix* host_lm_head,
                         const float* rope_factors, const CudaOptions& options)
    : device_(std::move(device)),
      config_(config),
      n_ctx_(checked_context(options.n_ctx, config)),
      weights_(std::move(weights)),
      work_(*device_, config_, n_ctx_),
      kv_(*device_, config_, n_ctx_),
      kv_lengths_(config.n_layers),
      rope_(*device_, config_, rope_factors, n_ctx_),
      forward_(*device_, config_, weights_, work_, kv_, rope_),
      prefill_matmuls_(make_prefill_matmuls(options.prefill, *device_, config_, work_)),
      logits_({*device_, config_, weights_, host_lm_head, work_.h.data(), n_ctx_, options.graphs}),
      checks_({*device_, config_, weights_, host_lm_head, work_.h.data(), n_ctx_, options.graphs}),
      graphs_(*device_, options.graphs),
      pass_(*device_, 1),
      prefill_pass_(*device_, 1),
      prefill_tokens_(*device_, kPrefillChunk),
      staged_tokens_(*device_, kPrefillChunk),
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
                weights_.description().c_str(), n_ctx_, static_cast<double>(kv_.bytes()) / 1e6);
}

std::string CudaBackend::device() const {
  const DeviceInfo& info = device_->info();
  return format("CUDA (%s, sm_%d, weights %s)", info.name.c_str(), info.sm,
                weights_.description().c_str());
}

void CudaBackend::check_rows(int slot, int n) const {
  SB_CHECK(slot >= 0 && n >= 1 && slot + n <= kMaxRows);
}

void CudaBackend::embed(int slot, int32_t token) {
  check_rows(slot, 1);
  SB_CHECK(token >= 0 && token < config_.vocab_size);
  tokens_[slot] = token;
  paths_.reset(slot);
  pending_[slot] = true;
}

// Whether one of the rows is not straight.
bool CudaBackend::is_tree(int slot, int n) const {
  bool tree = false;
  for (int i = slot; i < slot + n; ++i) tree |= !paths_[i].straight;
  return tree;
}

// The pass of rows slot.., and their tokens.
void CudaBackend::store_pass(int slot, int n, int pos) const {
  PassState state{{n, pos, slot}, {}, {}};
  std::copy_n(tokens_.begin() + slot, n, state.tokens);
  for (int i = 0; i < n; ++i) {
    state.tree.path[i] = packed_path(paths_[slot + i]);
    state.tree.depth[i] = static_cast<uint8_t>(paths_[slot + i].depth);
  }
  store_value(*device_, pass_.data(), state);
}

// For whoever looks at rows before layer 1.
void CudaBackend::embed_pending(int slot, int n) const {
  for (int i = slot; i < slot + n; ++i) {
    if (!pending_[i]) continue;
    store_pass(i, 1, 0);
    forward_.embed(&pass_.data()->pass, pass_.data()->tokens, 1, work_.h.data());
    pending_[i] = false;
  }
}

// Attention's grid for so many positions: graphs are made for powers of two.
int CudaBackend::grid_context(int positions) const {
  int context = kernels::kAttentionChunk;
  while (context < positions) context *= 2;
  return std::min(context, padded_context(n_ctx_));
}

void CudaBackend::run_layers(int slot, int n, int pos, int from, int to) {
  check_rows(slot, n);
  SB_CHECK(pos >= 0 && pos + n <= n_ctx_);
  SB_CHECK(1 <= from && from <= to && to <= config_.n_layers);
  kv_lengths_.extend(pos, n, from, to);
  rope_.ensure(pos + n - 1);
  if (from == 1) {
    std::fill_n(pending_.begin() + slot, n, false);
  } else {
    embed_pending(slot, n);
  }
  store_pass(slot, n, pos);
  const Stretch stretch{from, to, grid_context(pos + n), is_tree(slot, n)};
  SB_CHECK(!stretch.tree || pos >= slot);
  graphs_.run(stretch, [&] {
    const PassState* state = pass_.data();
    if (from == 1) forward_.embed(&state->pass, state->tokens, kMaxRows, work_.h.data());
    forward_.decode(&state->pass, stretch.tree ? &state->tree : nullptr, from, to, stretch.context);
  });
}

void CudaBackend::keep_path(int pos, int slot) {
  check_rows(slot, 1);
  kv_.keep_path(pos, paths_[slot]);
  kv_lengths_.truncate(pos + paths_[slot].depth + 1);
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

ExitPeak CudaBackend::exit_check(int head, int slot, float temperature) {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  return checks_.check(head, slot, temperature);
}

ExitPeak CudaBackend::exit_draw(int head, int slot, float temperature, const DrawRule& rule,
                                std::span<const int32_t> text, RowDraw& draw) {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  return checks_.check_and_draw(head, slot, temperature, rule, text, draw);
}

void CudaBackend::keep_state(int slot) {
  check_rows(slot, 1);
  embed_pending(slot, 1);
  checks_.keep_state(slot);
}

void CudaBackend::prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
                          void* context) {
  const int total = static_cast<int>(tokens.size());
  SB_CHECK(kv_lengths_.everywhere() + total <= n_ctx_);
  for (int done = 0; done < total;) {
    const int n = std::min(kPrefillChunk, total - done);
    prefill_chunk(tokens.subspan(done, n), true);
    done += n;
    if (progress && !progress(context, done)) return;
  }
}

void CudaBackend::prefill_rows(std::span<const int32_t> tokens) {
  const int n = static_cast<int>(tokens.size());
  SB_CHECK(n >= 1 && n <= kPrefillChunk && kv_lengths_.everywhere() + n <= n_ctx_);
  prefill_chunk(tokens, false);
  prefilled_rows_ = n;
}

void CudaBackend::prefill_logits(int first, int n, float* out) {
  SB_CHECK(first >= 0 && n >= 1 && n <= kMaxRows && first + n <= prefilled_rows_);
  logits_.logits_of(work_.prefill_h.data() + static_cast<size_t>(first) * config_.dim, n, out);
}

void CudaBackend::prefill_chunk(std::span<const int32_t> tokens, bool kv_only) {
  prefilled_rows_ = 0;
  const int n = static_cast<int>(tokens.size()), pos = kv_len(1);
  for (int i = 0; i < n; ++i) {
    SB_CHECK(tokens[i] >= 0 && tokens[i] < config_.vocab_size);
    staged_tokens_.data()[i] = tokens[i];
  }
  kv_lengths_.extend(pos, n, 1, config_.n_layers);
  rope_.ensure(pos + n - 1);
  device_->copy_in(prefill_tokens_.data(), staged_tokens_.data(), n * sizeof(int32_t));
  store_value(*device_, prefill_pass_.data(), kernels::Pass{n, pos});
  forward_.embed(prefill_pass_.data(), prefill_tokens_.data(), n, work_.prefill_h.data());
  forward_.prefill(prefill_pass_.data(), n, kv_only, *prefill_matmuls_);
  device_->synchronize();  // the tokens of the next chunk go the same way
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
  kv_.read(layer, pos, k, v);
}

// Before anything is taken.
void check_fits(Device& device, const ModelConfig& config, const Weights& weights,
                const CudaOptions& options) {
  const std::string why = why_not_on_gpu(config);
  if (!why.empty()) {
    throw Error(ErrorCode::kUnsupported,
                format("the GPU cannot run this model: %s; device=cpu runs it", why.c_str()));
  }
  MemoryRequest request;
  request.dtype = options.dtype;
  request.n_ctx = checked_context(options.n_ctx, config);
  request.heads = options.heads_bytes;
  if (options.prefill == PrefillPath::kCublas) {
    request.cublas = PrefillCublas::bytes_needed(config, prefill_rows(request.n_ctx));
  }
  require_fits(config, weights, request, device.free_bytes(), device.info().total_bytes);
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(std::unique_ptr<Device> device,
                                           const ModelConfig& config, const Weights& weights,
                                           const CudaOptions& options) {
  check_fits(*device, config, weights, options);
  DeviceWeights uploaded(*device, config, weights, {options.dtype, options.progress});
  const float* factors = weights.rope_factors_for(config, checked_context(options.n_ctx, config));
  return std::make_unique<CudaBackend>(std::move(device), config, std::move(uploaded),
                                       &weights.lm_head, factors, options);
}

std::unique_ptr<Backend> make_random_cuda_backend(std::unique_ptr<Device> device,
                                                  const ModelConfig& config,
                                                  const CudaOptions& options) {
  check_fits(*device, config, random_weights(config), options);
  DeviceWeights random(*device, config, options.dtype, 1);
  return std::make_unique<CudaBackend>(std::move(device), config, std::move(random), nullptr,
                                       nullptr, options);
}

}  // namespace specbound
