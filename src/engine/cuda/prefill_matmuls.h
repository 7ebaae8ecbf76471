// The matmuls of a prefill chunk, by our kernels or by cuBLAS: rows are prepared once, then
// multiplied by whatever reads them.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/cuda/cublas.h"
#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/device.h"
#include "engine/cuda/weight_layout.h"
#include "engine/cuda/workspace.h"
#include "kernels/layouts.h"
#include "model/config.h"

namespace specbound {

// The matmuls of prefill by cuBLAS, for `--prefill cublas`: in place of norm_rows, prepare_rows and
// prefill_matmul of device_linear.h. Weights are expanded into row-major FP16 one matrix at a time,
// rows go in as one FP16 number a value, with a power of two a row. The bits are cuBLAS', and may
// be others for another number of rows.
class PrefillCublas {
 public:
  // For up to `max_rows` rows of the model's layers. Throws what Cublas does.
  PrefillCublas(Device& device, const ModelConfig& config, int max_rows);
  static size_t bytes_needed(const ModelConfig& config, int max_rows);

  const std::string& name() const { return cublas_.name(); }

  // The rows x that all below multiply by: norm(h) * weight, h (n_rows, dim) 16-byte aligned ..
  void norm(const float* h, const float* weight, int dim, float eps, int n_rows);
  // .. or rows as they are, n values of each of x (n_rows, ld), 16-byte aligned.
  void take(const float* x, int ld, int n, int n_rows);

  // y (n_rows, ldy) = W x
  void project(const DeviceMatrix& w, float* y, int ldy);
  // h (n_rows, ldh) += W x + bias (null: none)
  void project_residual(const DeviceMatrix& w, const float* bias, float* h, int ldh);
  // act (n_rows, ld) = activation(Wg x) * (Wu x)
  void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, float* act, int ld);

 private:
  void prepare(const float* x, int ld, int n, const float* weight, float eps, int n_rows);
  void multiply(const DeviceMatrix& w, float* c, int ldc);

  Device& device_;
  Cublas cublas_;
  const Activation activation_;
  DeviceMemory<uint16_t> weights_;  // one matrix, (n_out, padded n_in)
  DeviceMemory<uint16_t> rows_;     // x, (n_rows, padded n_in)
  DeviceMemory<float> scales_;      // of x, (n_rows)
  DeviceMemory<float> products_;    // (n_rows, n_out) that are not yet what is asked for
  int n_rows_ = 0, n_in_ = 0;       // of x
};

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
