// The matmuls of a prefill chunk, by our kernels or by cuBLAS: rows are prepared once, then
// multiplied by whatever reads them.
#pragma once

#include <memory>

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device.h"
#include "engine/cuda/weight_layout.h"
#include "engine/cuda/workspace.h"
#include "kernels/layouts.h"
#include "model/config.h"

namespace specbound {

class PrefillMatmuls {
 public:
  virtual ~PrefillMatmuls() = default;
  virtual std::string name() const = 0;  // of who multiplies

  // The chunk: n_rows rows, which `pass` says too.
  virtual void begin(const kernels::Pass* pass, int n_rows) = 0;
  // x = norm(h) * weight, h (n_rows, dim), for matmuls of the type of `into` ..
  virtual void norm(const float* h, const float* weight, const DeviceMatrix& into) = 0;
  // .. or x (n_rows, into.n_in) as it is.
  virtual void take(const float* x, const DeviceMatrix& into) = 0;

  // y (n_rows, ldy) = W x
  virtual void project(const DeviceMatrix& w, float* y, int ldy) = 0;
  // h (n_rows, n_out) += W x + bias (null: none)
  virtual void project_residual(const DeviceMatrix& w, const float* bias, float* h) = 0;
  // x = activation(Wg x) * (Wu x), for `into`
  virtual void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up,
                       const DeviceMatrix& into) = 0;
};

// All must outlive it. Throws Error(kUnsupported) when cuBLAS was asked for and is not there.
std::unique_ptr<PrefillMatmuls> make_prefill_matmuls(PrefillPath path, Device& device,
                                                     const ModelConfig& config,
                                                     Workspace& workspace);

}  // namespace specbound
