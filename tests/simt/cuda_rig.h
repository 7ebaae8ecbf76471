// The CUDA engine over the SIMT executor, for tests.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device_first_layers.h"
#include "simt/simt_device.h"
#include "unit/engine_rig.h"

namespace specbound::test {

// Every other layer with a window, norms behind what is added, soft caps of scores.
inline TinySpec windowed_spec(int n_layers) {
  TinySpec spec = q8_0_spec(n_layers);
  spec.architecture = "gemma2";
  spec.tied = true;
  spec.window = 20;
  spec.attn_softcap = 2;
  return spec;
}

// `log`, where given, outlives the backend.
inline std::unique_ptr<Backend> cuda_backend(const TinyModel& model, CudaOptions options = {},
                                             simt::DeviceLog* log = nullptr,
                                             simt::DeviceOptions device = {}) {
  device.log = log;
  options.kv = model.kv;
  return make_cuda_backend(std::make_unique<simt::SimtDevice>(device), model.config, model.weights,
                           options);
}

// The CPU backend with its first layers on the executor; 0: none.
inline std::unique_ptr<Backend> split_backend(const TinyModel& model, int first, int threads = 1,
                                              int n_ctx = 0, simt::DeviceLog* log = nullptr) {
  simt::DeviceOptions device;
  device.log = log;
  CpuOptions options;
  options.n_threads = threads;
  options.n_ctx = n_ctx;
  options.kv = model.kv;
  if (first > 0) {
    CudaOptions there;
    there.n_ctx = n_ctx;
    there.kv = model.kv;
    options.first_layers = make_first_layers(std::make_unique<simt::SimtDevice>(device),
                                             model.config, model.weights, there, first);
  }
  return make_cpu_backend(model.config, model.weights, options);
}

// All but the last of `ids` by prefill, in `parts`, the last decoded: keys, values and its logits.
inline Record prefilled(Backend& backend, const std::vector<int32_t>& ids,
                        const std::vector<int>& parts) {
  const int n = static_cast<int>(ids.size()) - 1;
  Record record(backend.config(), n + 1);
  int done = 0;
  for (const int part : parts) {
    backend.prefill(std::span(ids).subspan(done, part));
    done += part;
    for (int l = 1; l <= backend.config().n_layers; ++l) REQUIRE(backend.kv_len(l) == done);
  }
  for (int pos = 0; pos < n; ++pos) record.read_kv(backend, pos);
  run_positions(backend, ids, n, n + 1, 1, 0, record);
  return record;
}

}  // namespace specbound::test
