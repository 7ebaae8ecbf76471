#include "engine/cuda/prefill_matmuls.h"

#include "engine/cuda/device_linear.h"
#include "engine/cuda/prefill_cublas.h"
#include "kernels/prefill_gemm.h"

namespace specbound {
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
