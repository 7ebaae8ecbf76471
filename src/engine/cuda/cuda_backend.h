// The CUDA engine's host side: the forward pass of cpu_backend.cpp as launches of kernels into one
// stream, in graphs where a stretch of layers comes again. INT8 weights give the CPU backend's bits
// (prefill's attention apart), FP16 weights the bits of one architecture.
// docs/architecture.md 4, 8.
//
// Decisions are the host's: a stretch of layers and the check behind it are one graph each, the
// rows they are about lie in device memory, and the host waits once, for the check's decision.
// Calls that give no values back return before they are done.
#pragma once

#include <functional>
#include <memory>

#include "engine/backend.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_weights.h"
#include "engine/kv_type.h"
#include "model/weights.h"

namespace specbound {

enum class PrefillPath {
  kOwn,     // our kernels: INT8 in the CPU's bits
  kCublas,  // cuBLAS, opened at run time: other bits, which may change with its version
};

struct CudaOptions {
  int n_ctx = 0;  // 0: the model's max_seq_len, at most 4096
  // Texts with K/V of their own at most; as many as memory has room for, at least one.
  int n_sequences = 1;
  GpuDtype dtype = GpuDtype::kAsStored;
  PrefillPath prefill = PrefillPath::kOwn;
  // INT8: the CPU backend's bits of it too, of prompts as well where weights are INT8.
  KvType kv = KvType::kFp16;
  // To leave free for exit heads that will be set, for texts of up to n_ctx tokens; null: none.
  std::function<size_t(int n_ctx)> heads_bytes = {};
  // To leave free for what is loaded later, where that costs sequences but the first alone.
  size_t later_bytes = 0;
  bool graphs = true;  // false: every kernel launched by itself
  std::function<void(size_t done, size_t total)> progress;  // of the upload: bytes
};

// Throws Error(kUnsupported) for a model whose shape the kernels lack, Error(kLimit) when it does
// not fit: before anything is taken, Error(kDevice).
std::unique_ptr<Backend> make_cuda_backend(std::unique_ptr<Device> device,
                                           const ModelConfig& config, const Weights& weights,
                                           const CudaOptions& options);

// A model of random weights, made on the device: for measuring speed. options.dtype is kInt8 or
// kFp16.
std::unique_ptr<Backend> make_random_cuda_backend(std::unique_ptr<Device> device,
                                                  const ModelConfig& config,
                                                  const CudaOptions& options);

}  // namespace specbound
