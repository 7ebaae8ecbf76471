#include "engine/cuda/device_first_layers.h"

#include <algorithm>
#include <exception>

#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/decode_passes.h"
#include "engine/cuda/device_forward.h"
#include "engine/cuda/device_kv.h"
#include "engine/cuda/device_weights.h"
#include "engine/cuda/memory_plan.h"
#include "engine/cuda/workspace.h"
#include "error.h"

namespace specbound {
namespace {

class DeviceFirstLayers final : public FirstLayers {
 public:
  // `part`: a model of these layers alone, of the model's `of` layers.
  DeviceFirstLayers(std::unique_ptr<Device> device, const ModelConfig& part, int of,
                    DeviceWeights weights, const float* rope_factors, int n_ctx, KvType kv,
                    bool graphs)
      : device_(std::move(device)),
        config_(part),
        of_(of),
        n_ctx_(n_ctx),
        weights_(std::move(weights)),
        work_(*device_, config_, n_ctx, kMaxRows),
        kv_(*device_, config_, n_ctx, 1, kv),
        rope_(*device_, config_, rope_factors, n_ctx),
        forward_(*device_, config_, weights_, work_, kv_, rope_),
        passes_(*device_, forward_, work_.h.data(), n_ctx, graphs),
        rows_(*device_, static_cast<size_t>(prefill_rows(n_ctx)) * config_.dim) {}

  // Memory goes when nothing uses it any more, or when the device is lost.
  ~DeviceFirstLayers() override {
    try {
      device_->synchronize();
    } catch (const std::exception&) {
    }
  }

  int n_layers() const override { return config_.n_layers; }
  std::string device() const override {
    const DeviceInfo& info = device_->info();
    return format("CUDA (%s, sm_%d, weights %s, %d of %d layers%s)", info.name.c_str(), info.sm,
                  weights_.description().c_str(), n_layers(), of_, kv_note(kv_.type()));
  }
  size_t kv_bytes() const override { return kv_.next_sequence(); }
  Device& gpu() override { return *device_; }

  void run(float* h, int n, const RowPath* paths, int slot, int pos, int from, int to) override;
  void keep_path(int pos, const RowPath& path) override { kv_.keep_path(0, pos, path); }
  void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const override {
    SB_CHECK(1 <= layer && layer <= n_layers() && pos >= 0 && pos < n_ctx_);
    kv_.read(layer, 0, pos, k, v);
  }

 private:
  std::unique_ptr<Device> device_;
  const ModelConfig config_;
  const int of_, n_ctx_;
  DeviceWeights weights_;
  Workspace work_;
  DeviceKv kv_;
  DeviceRope rope_;
  DeviceForward forward_;
  DecodePasses passes_;
  PinnedMemory<float> rows_;  // (prefill_rows(n_ctx), dim): on their way there and back
};

void DeviceFirstLayers::run(float* h, int n, const RowPath* paths, int slot, int pos, int from,
                            int to) {
  SB_CHECK(1 <= from && from <= to && to <= n_layers());
  SB_CHECK(slot >= 0 && slot < kMaxRows && n >= 1 && pos >= 0 && pos + n <= n_ctx_);
  SB_CHECK(paths ? slot + n <= kMaxRows : n <= prefill_rows(n_ctx_));
  rope_.ensure(pos + n - 1);
  device_->synchronize();  // what a run that failed left under way has these rows
  const size_t dim = config_.dim;
  std::copy_n(h, n * dim, rows_.data());
  for (int done = 0; done < n;) {
    const int some = std::min(n - done, kMaxRows - slot);
    float *staged = rows_.data() + done * dim, *there = work_.h.data() + slot * dim;
    device_->copy_in(there, staged, some * dim * sizeof(float));
    passes_.run({.slot = slot, .n = some, .pos = pos + done, .paths = paths}, from, to);
    device_->copy_out(staged, there, some * dim * sizeof(float));
    done += some;
  }
  device_->synchronize();
  std::copy_n(rows_.data(), n * dim, h);
}

}  // namespace

std::unique_ptr<FirstLayers> make_first_layers(std::unique_ptr<Device> device,
                                               const ModelConfig& config, const Weights& weights,
                                               const CudaOptions& options, int n_layers) {
  SB_CHECK(1 <= n_layers && n_layers <= config.n_layers);
  require_kernels_for(config, weights, options.dtype);
  MemoryRequest request;
  request.dtype = options.dtype;
  request.n_ctx = checked_context(options.n_ctx, config);
  request.layers = n_layers;
  request.kv = options.kv;
  require_fits(config, weights, request, device->free_bytes(), device->info().total_bytes);

  ModelConfig part = config;
  part.n_layers = n_layers;
  DeviceWeights uploaded(*device, part, first_layers(weights, n_layers),
                         {options.dtype, options.progress});
  return std::make_unique<DeviceFirstLayers>(
      std::move(device), part, config.n_layers, std::move(uploaded),
      weights.rope_factors_for(config, request.n_ctx), request.n_ctx, options.kv, options.graphs);
}

}  // namespace specbound
