#include "engine/cuda/prefill_matmuls.h"

#include <algorithm>

#include "engine/cuda/device_linear.h"
#include "engine/cuda/workspace.h"
#include "error.h"
#include "kernels/expand.h"
#include "kernels/prefill_gemm.h"

namespace specbound {

namespace {

size_t values_of(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

// What the largest matmuls of a layer take.
struct Sizes {
  size_t weights, rows, products;  // values
  size_t bytes(int max_rows) const {
    return Cublas::kWorkspaceBytes + (weights + rows) * sizeof(uint16_t) +
           (products + static_cast<size_t>(max_rows)) * sizeof(float);
  }
};

Sizes sizes_of(const ModelConfig& config, int max_rows) {
  const int dim = padded_in(config.dim), q_dim = padded_in(config.q_dim());
  const int ffn_dim = padded_in(config.ffn_dim);
  return {std::max({values_of(std::max(config.q_dim(), config.ffn_dim), dim),
                    values_of(config.dim, q_dim), values_of(config.dim, ffn_dim)}),
          values_of(max_rows, std::max({dim, q_dim, ffn_dim})),
          values_of(max_rows, std::max(config.dim, config.ffn_dim))};
}

}  // namespace

PrefillCublas::PrefillCublas(Device& device, const ModelConfig& config, int max_rows)
    : device_(device), cublas_(device), activation_(config.activation) {
  const Sizes sizes = sizes_of(config, max_rows);
  weights_ = DeviceMemory<uint16_t>(device, sizes.weights);
  rows_ = DeviceMemory<uint16_t>(device, sizes.rows);
  scales_ = DeviceMemory<float>(device, static_cast<size_t>(max_rows));
  products_ = DeviceMemory<float>(device, sizes.products);
}

size_t PrefillCublas::bytes_needed(const ModelConfig& config, int max_rows) {
  return sizes_of(config, max_rows).bytes(max_rows);
}

void PrefillCublas::prepare(const float* x, int ld, int n, const float* weight, float eps,
                            int n_rows) {
  SB_CHECK(static_cast<size_t>(n_rows) <= scales_.size());
  SB_CHECK(values_of(n_rows, padded_in(n)) <= rows_.size());
  n_rows_ = n_rows;
  n_in_ = n;
  kernels::halve_scaled_rows(
      {x, n_rows, ld, n, weight, eps, rows_.data(), padded_in(n), scales_.data()},
      device_.stream());
}

void PrefillCublas::norm(const float* h, const float* weight, int dim, float eps, int n_rows) {
  prepare(h, dim, dim, weight, eps, n_rows);
}

void PrefillCublas::take(const float* x, int ld, int n, int n_rows) {
  prepare(x, ld, n, nullptr, 0, n_rows);
}

// c (n_rows, ldc) = W x / scale
void PrefillCublas::multiply(const DeviceMatrix& w, float* c, int ldc) {
  const int n_out = w.n_out(), ld = padded_in(w.n_in());
  SB_CHECK(w.n_in() == n_in_ && values_of(n_out, ld) <= weights_.size());
  if (w.int8()) {
    kernels::expand_i8({*w.i8, weights_.data(), ld}, device_.stream());
  } else {
    kernels::expand_f16({*w.f16, weights_.data(), ld}, device_.stream());
  }
  cublas_.multiply(n_rows_, n_out, ld, 1, {rows_.data(), ld},
                   HalfMatrix{weights_.data(), ld}.transposed(), 0, c, ldc);
}

void PrefillCublas::project(const DeviceMatrix& w, float* y, int ldy) {
  multiply(w, y, ldy);
  kernels::finish_rows(
      {kernels::Finish::kScale, y, n_rows_, w.n_out(), ldy, scales_.data(), nullptr, y, ldy},
      device_.stream());
}

void PrefillCublas::project_residual(const DeviceMatrix& w, const float* bias, float* h, int ldh) {
  SB_CHECK(values_of(n_rows_, w.n_out()) <= products_.size());
  multiply(w, products_.data(), w.n_out());
  kernels::finish_rows({kernels::Finish::kAdd, products_.data(), n_rows_, w.n_out(), w.n_out(),
                        scales_.data(), bias, h, ldh},
                       device_.stream());
}

void PrefillCublas::gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, float* act, int ld) {
  SB_CHECK(gate.n_out() == up.n_out() && values_of(n_rows_, gate.n_out()) <= products_.size());
  multiply(gate, products_.data(), gate.n_out());
  multiply(up, act, ld);
  kernels::finish_rows({kernels::Finish::kGate, products_.data(), n_rows_, gate.n_out(),
                        gate.n_out(), scales_.data(), nullptr, act, ld, activation_},
                       device_.stream());
}

namespace {

class OwnMatmuls final : public PrefillMatmuls {
 public:
  OwnMatmuls(Device& device, const ModelConfig& config, Workspace& workspace)
      : device_(device), config_(config), work_(workspace) {}

  std::string name() const override { return "own kernels"; }
  void begin(const kernels::Pass* pass, int n_rows) override {
    pass_ = pass;
    n_rows_ = n_rows;
  }
  void norm(const float* h, const float* weight, const DeviceMatrix& into) override {
    x_ = norm_rows(work_.normed, into.int8(), pass_, n_rows_, h, weight, config_.dim,
                   config_.norm_eps, device_.stream());
  }
  void take(const float* x, const DeviceMatrix& into) override {
    const int n = into.n_in();
    x_ = prepare_rows(work_.wide_rows, into.int8(), pass_, n_rows_, x, n, n, device_.stream());
  }
  void project(const DeviceMatrix& w, float* y, int ldy) override {
    prefill_matmul(pass_, n_rows_, x_, w, nullptr, false, y, ldy, device_.stream());
  }
  void project_residual(const DeviceMatrix& w, const float* bias, float* h) override {
    prefill_matmul(pass_, n_rows_, x_, w, bias, true, h, w.n_out(), device_.stream());
  }
  void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up,
               const DeviceMatrix& into) override {
    const int n = gate.n_out();
    if (x_.int8) {
      const PreparedRows act = work_.wide_rows.rows(n, true);
      kernels::prefill_gate_up_i8(
          {pass_, n_rows_, *gate.i8, *up.i8, x_.i8, act.i8, config_.activation}, device_.stream());
      x_ = act;
    } else {
      kernels::prefill_gate_up_f16(
          {pass_, n_rows_, *gate.f16, *up.f16, x_.f16, work_.act.data(), n, config_.activation},
          device_.stream());
      take(work_.act.data(), into);
    }
  }

 private:
  Device& device_;
  const ModelConfig& config_;
  Workspace& work_;
  const kernels::Pass* pass_ = nullptr;
  int n_rows_ = 0;
  PreparedRows x_;
};

class CublasMatmuls final : public PrefillMatmuls {
 public:
  CublasMatmuls(Device& device, const ModelConfig& config, Workspace& workspace)
      : config_(config), work_(workspace), cublas_(device, config, workspace.max_rows) {}

  std::string name() const override { return cublas_.name(); }
  void begin(const kernels::Pass*, int n_rows) override { n_rows_ = n_rows; }
  void norm(const float* h, const float* weight, const DeviceMatrix&) override {
    cublas_.norm(h, weight, config_.dim, config_.norm_eps, n_rows_);
  }
  void take(const float* x, const DeviceMatrix& into) override {
    cublas_.take(x, into.n_in(), into.n_in(), n_rows_);
  }
  void project(const DeviceMatrix& w, float* y, int ldy) override { cublas_.project(w, y, ldy); }
  void project_residual(const DeviceMatrix& w, const float* bias, float* h) override {
    cublas_.project_residual(w, bias, h, w.n_out());
  }
  void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up,
               const DeviceMatrix& into) override {
    cublas_.gate_up(gate, up, work_.act.data(), gate.n_out());
    take(work_.act.data(), into);
  }

 private:
  const ModelConfig& config_;
  Workspace& work_;
  PrefillCublas cublas_;
  int n_rows_ = 0;
};

}  // namespace

std::unique_ptr<PrefillMatmuls> make_prefill_matmuls(PrefillPath path, Device& device,
                                                     const ModelConfig& config,
                                                     Workspace& workspace) {
  if (path == PrefillPath::kCublas) {
    return std::make_unique<CublasMatmuls>(device, config, workspace);
  }
  return std::make_unique<OwnMatmuls>(device, config, workspace);
}

}  // namespace specbound
